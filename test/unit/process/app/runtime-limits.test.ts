// What operators are shown of limits at run time: what is in force for one caller, how many are, and whether they have
// seen the last change.

import { describe, expect, test } from "vitest";
import { Unit } from "../../../../src/engine/domain/limit.ts";
import { oneByteOf } from "../../../../src/engine/domain/request.ts";
import { explainRequest } from "../../../../src/engine/rules/explain.ts";
import { type AskedLimit, keep, keyText, type RuntimeChange } from "../../../../src/engine/runtime/runtime-limit.ts";
import { readAskedLimit } from "../../../../src/operate/http/read-asked-limit.ts";
import { createLogger } from "../../../../src/operate/telemetry/logger.ts";
import { withRuntimeLimit } from "../../../../src/process/app/explain-page.ts";
import { openRuntimeLimits } from "../../../../src/process/app/runtime-limits.ts";
import { readSettings } from "../../../../src/settings/settings.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { rulesFromYaml } from "../../../support/rules.ts";

const RULES = rulesFromYaml(`domain: edge
limits:
  free: { requests_per_unit: 2, unit: hour }
  gold: { requests_per_unit: 20, unit: hour }
descriptors:
  - { key: tenant, rate_limit: { requests_per_unit: 2, unit: hour } }
  - { key: user, tier: { entry: plan, default: free } }
  - key: city
    rate_limits:
      - { name: größe, requests_per_unit: 2, unit: hour }
      - { name: other, requests_per_unit: 9, unit: hour }
  - { key: api_key, value: secret, hash_values: true, rate_limit: { requests_per_unit: 2, unit: hour } }
  - key: job
    hold: { id: run, estimate: max, ttl: 60s }
    rate_limit: { requests_per_unit: 9, unit: hour, algorithm: token_bucket }
`);

async function open(env: Readonly<Record<string, string>> = {}) {
  const clock = new ManualClock();
  const logger = createLogger({ level: "silent", format: "json", clock, secrets: [] });
  let rules = RULES;
  const options = { settings: readSettings(env), clock, logger, shared: undefined, rules: () => rules };
  const { source, limits } = await openRuntimeLimits(options);
  const useRules = (yaml: string) => {
    rules = rulesFromYaml(yaml);
  };
  const set = async (caller: AskedLimit["caller"], change: RuntimeChange, more: Partial<AskedLimit> = {}) => {
    const asked = { caller, change, until: undefined, note: "INC-1", seenUs: undefined, ...more };
    return (await source.set([asked], "alice", { isDry: false, waits: false })).limits[0];
  };
  return { clock, source, set, table: limits.table, useRules };
}

const callerOf = (entries: Readonly<Record<string, string>>): AskedLimit["caller"] => ({
  domain: "edge",
  entries: Object.entries(entries).map(([key, value]) => ({ key, value })),
});
const ACME = callerOf({ tenant: "acme" });
const BLOCK = { kind: "block", shadow: false } as const;
const explained = (
  caller: AskedLimit["caller"],
  limit: ReturnType<Awaited<ReturnType<typeof open>>["source"]["of"]>,
  shows = true,
) => {
  const [report] = explainRequest(RULES, caller.domain, [caller.entries]).descriptors;
  if (report === undefined) throw new Error("expected a report");
  return withRuntimeLimit(report, limit, shows);
};

test("counts what is in force by kind", async () => {
  const { clock, source, set } = await open();
  const none = { amounts: 0, use: 0, block: 0, exempt: 0, idle: 0 };
  expect(await source.counts()).toMatchObject({ inForce: none, last: undefined });
  await set(ACME, BLOCK, { until: { seconds: 60 } });
  await set(callerOf({ tenant: "b" }), { kind: "exempt", global: false });
  await set(callerOf({ tenant: "c" }), BLOCK);
  const { changes, ...counts } = await source.counts();
  expect(counts).toMatchObject({
    inForce: { ...none, block: 2, exempt: 1 },
    last: { atUs: source.of(callerOf({ tenant: "c" }))?.seen_us, says: expect.stringContaining("tenant=c") },
  });
  await set(callerOf({ tenant: "c" }), { kind: "none" });
  const after = await source.counts();
  expect(after.inForce).toEqual({ ...none, block: 1, exempt: 1 });
  expect(after.changes).toBeGreaterThan(changes);
  clock.advanceSeconds(60);
  expect((await source.counts()).inForce).toEqual({ ...none, exempt: 1 });
});

test("the newest are listed first, each once, and those that were unset not at all", async () => {
  const { clock, source, set } = await open();
  for (const tenant of ["a", "b", "c", "d", "a", "d"]) {
    clock.advanceSeconds(1);
    await set(callerOf({ tenant }), BLOCK);
  }
  await set(callerOf({ tenant: "d" }), { kind: "none" });
  const { limits, next } = await source.list({ domain: "edge", after: undefined, countMax: 2, newest: true });
  expect(limits).toMatchObject([callerOf({ tenant: "a" }), callerOf({ tenant: "c" })]);
  expect(next).toBeUndefined();
});

test("an operator who was shown nothing may set a limit where one was unset or has ended, and not where one is in force", async () => {
  const { clock, set } = await open();
  expect((await set(ACME, BLOCK, { seenUs: 0 }))?.outcome).toBe("set");
  expect(await set(ACME, BLOCK, { seenUs: 0 })).toMatchObject({
    outcome: "conflict",
    says: expect.stringContaining("expected the limit that was shown"),
  });
  await set(ACME, { kind: "none" });
  expect((await set(ACME, BLOCK, { seenUs: 0, until: { seconds: 5 } }))?.outcome).toBe("set");
  clock.advanceSeconds(6);
  expect((await set(ACME, BLOCK, { seenUs: 0 }))?.outcome).toBe("set");
});

test("an explanation says what is set, and who set it and why only to holders of a token", async () => {
  const { source, set } = await open();
  await set(ACME, BLOCK, { until: { seconds: 60 } });
  const limit = source.of(ACME);
  const { says, runtime_limit: shown } = explained(ACME, limit);
  expect(says).toMatch(/^the rule 'tenant' applies; set at run time until \d{4}-.*Z: blocked: every call is refused$/);
  expect(shown).toMatchObject({ kind: "block", who: "alice", note: "INC-1", seen_us: limit?.seen_us });
  expect(JSON.stringify(explained(ACME, limit, false))).not.toMatch(/alice|INC-1/);
  expect(explained(ACME, source.of(callerOf({ tenant: "other" })))).not.toHaveProperty("runtime_limit");
  expect(source.of(callerOf({}))).toBeUndefined();
});

test("the limits in words are those of the call's tier, and a settlement settles whatever was set", async () => {
  const { source, set } = await open();
  const amounts = [{ limit: "gold", requests: 50, unit: Unit.unknown, burst: undefined }];
  expect(await set(callerOf({ user: "u" }), { kind: "amounts", amounts })).toMatchObject({ outcome: "set" });
  const wordsOf = (plan: string) => source.of(callerOf({ user: "u", plan }))?.limits?.join();
  expect([wordsOf("gold"), wordsOf("free")]).toEqual([
    expect.stringContaining("50 hits per hour"),
    expect.stringContaining("2 hits per hour"),
  ]);
  await set(callerOf({ job: "j" }), BLOCK);
  const settlement = callerOf({ job: "j", run: "1", settle: "1" });
  expect(explained(settlement, source.of(settlement))).not.toHaveProperty("runtime_limit");
});

test("a limit is named as its file writes it", async () => {
  const { source, set } = await open();
  const amounts = [{ limit: oneByteOf("größe"), requests: 5, unit: Unit.unknown, burst: undefined }];
  expect(await set(callerOf({ city: "c" }), { kind: "amounts", amounts })).toMatchObject({ outcome: "set" });
  expect(source.of(callerOf({ city: "c" }))?.limits?.join()).toContain("5 hits per hour");
});

test("of a hidden value nothing is claimed about its rule", async () => {
  const { source, set } = await open();
  await set(callerOf({ api_key: "secret" }), BLOCK);
  const { limits } = await source.list({ domain: "edge", after: undefined, countMax: 9, newest: false });
  expect(limits).toMatchObject([{ says: expect.stringContaining("its value is hidden") }]);
});

test("a name of more than 256 bytes is set in force, and one that can't be kept is rejected", async () => {
  const { source, set, useRules } = await open();
  const name = "ü".repeat(300);
  useRules(`domain: edge
descriptors:
  - key: tenant
    rate_limits: [{ name: ${name}, requests_per_unit: 2, unit: hour }, { name: b, requests_per_unit: 3, unit: day }]
`);
  const limit = { ...ACME, limit: name, requests_per_unit: 7 };
  expect(await set(ACME, readAskedLimit(limit, "limit", false).change)).toMatchObject({ outcome: "set" });
  expect(source.of(ACME)?.limits?.join()).toContain("7 hits per hour");
  const long = { ...limit, limit: "ü".repeat(513) };
  expect(() => readAskedLimit(long, "limit", false)).toThrow("expected text of at most 1024 bytes as limit.limit");
});

describe("after an edit of the rules", () => {
  const edited = (rule: string) => `domain: edge
descriptors:
  - { key: tenant, ${rule}rate_limit: { requests_per_unit: 2, unit: hour } }
  - { key: other, rate_limit: { requests_per_unit: 2, unit: hour } }
`;
  const WITH_PLAN = callerOf({ tenant: "acme", plan: "gold" });
  const NESTED =
    "domain: edge\ndescriptors:\n  - key: tenant\n    descriptors: [{ key: plan, rate_limit: { requests_per_unit: 2, unit: hour } }]\n";
  const SHARED = (rule: string) => edited(`value: "a*", ${rule}`);
  const COST = edited("cost: { entry: plan }, ");

  // Promise(operators): An edit of the rules lifts no block unseen: it stays, or the list and a condition say why it does nothing.
  test.each([
    {
      what: "values are hidden",
      before: edited(""),
      after: edited("hash_values: true, "),
      caller: ACME,
      idle: undefined,
    },
    {
      what: "values are shown",
      before: edited("hash_values: true, "),
      after: edited(""),
      caller: ACME,
      idle: undefined,
    },
    {
      what: "an entry carries a cost",
      before: NESTED,
      after: COST,
      caller: WITH_PLAN,
      idle: "'plan' now carries a cost",
    },
    {
      what: "values begin to share a bucket",
      before: SHARED(""),
      after: SHARED("share_threshold: true, "),
      caller: ACME,
      idle: undefined,
    },
    {
      what: "the rule is gone",
      before: edited(""),
      after: "domain: edge\ndescriptors: [{ key: other }]\n",
      caller: ACME,
      idle: "no rule with limits",
    },
    {
      what: "the domain is gone",
      before: edited(""),
      after: "domain: b\ndescriptors: [{ key: other }]\n",
      caller: ACME,
      idle: "no rule with limits",
    },
  ])(
    "if $what, a block stays or says why it does nothing, and can be unset",
    async ({ before, after, caller, idle }) => {
      const { source, set, useRules } = await open();
      useRules(before);
      expect((await set(caller, BLOCK))?.outcome).toBe("set");
      useRules(after);
      const listed = async () =>
        (await source.list({ domain: undefined, after: undefined, countMax: 9, newest: false })).limits;
      expect(await listed()).toMatchObject([
        idle === undefined ? { rule: expect.stringMatching(/^tenant/) } : { says: expect.stringContaining(idle) },
      ]);
      expect(source.of(caller)?.limits?.length).toBe(idle === undefined ? 1 : undefined);
      expect((await source.counts()).inForce).toMatchObject(
        idle === undefined ? { block: 1, idle: 0 } : { block: 0, idle: 1 },
      );
      expect(source.idle.join()).toContain(idle ?? "");
      expect((await set(caller, { kind: "none" }))?.outcome).toBe("set");
      expect(await listed()).toEqual([]);
    },
  );

  test("a limit of a caller whose row stayed as it was replaces it", async () => {
    const { source, set, useRules } = await open();
    useRules(edited(""));
    await set(ACME, BLOCK);
    useRules(edited("hash_values: true, "));
    await set(ACME, { kind: "exempt", global: false });
    expect((await source.counts()).inForce).toMatchObject({ block: 0, exempt: 1 });
  });
});

test("one that can't be read is listed and counted as doing nothing, and can be unset", async () => {
  const { source, set, table } = await open();
  table.put(keep(keyText({ domain: "edge", entries: [["tenant", "acme"]] }), '{"kind":"later"}', 5));
  const list = () => source.list({ domain: "edge", after: undefined, countMax: 9, newest: false });
  expect((await list()).limits).toMatchObject([{ ...ACME, says: "it can't be read, so it does nothing" }]);
  expect((await source.counts()).inForce).toMatchObject({ idle: 1 });
  expect((await set(ACME, { kind: "none" }))?.outcome).toBe("set");
  expect((await list()).limits).toEqual([]);
});

test("pages that come from several processes in turn are all limits, each once, whatever else is set between them", async () => {
  const processes = [await open(), await open()] as const;
  const names = Array.from({ length: 40 }, (_, i) => `t${i}`);
  for (const [i, { set }] of processes.entries())
    for (const tenant of i === 0 ? names : names.toReversed()) await set(callerOf({ tenant }), BLOCK);
  const listed: string[] = [];
  let after: string | undefined;
  for (let turn = 0; turn === 0 || after !== undefined; turn++) {
    const { source, set } = processes[(turn & 1) as 0 | 1];
    const page = await source.list({ domain: "edge", after, countMax: 3, newest: false });
    listed.push(...page.limits.map((each) => JSON.stringify(each).match(/"value":"(\w+)"/)?.[1] ?? ""));
    after = page.next;
    await set(callerOf({ tenant: names[turn % names.length] ?? "" }), { kind: "exempt", global: false });
  }
  expect(listed.toSorted()).toEqual(names.toSorted());
});

test("what a list shows of a value that is no text can be set as it is", () => {
  const shown = { domain: "edge", entries: [{ key: "tenant", value: "x\ufffd", value_base64: "eP8=" }], block: true };
  expect(readAskedLimit(shown, "limit", false).caller.entries).toEqual([
    { key: "tenant", value: "x\ufffd", valueBase64: "eP8=" },
  ]);
  const other = { ...shown, entries: [{ key: "tenant", value: "y", value_base64: "eP8=" }] };
  expect(() => readAskedLimit(other, "limit", false)).toThrow("either value or value_base64");
});

test("if limits that ended or were unset take the room, the refusal says how many they are", async () => {
  const { clock, set } = await open({ RUNTIME_LIMITS_MAX: "2" });
  for (const tenant of ["a", "b"]) await set(callerOf({ tenant }), BLOCK);
  await set(callerOf({ tenant: "b" }), { kind: "none" });
  for (const tenant of ["c", "d"]) await set(callerOf({ tenant }), BLOCK, { until: { seconds: 60 } });
  clock.advanceSeconds(61);
  expect(await set(callerOf({ tenant: "e" }), BLOCK)).toMatchObject({
    outcome: "refused",
    says: "expected at most twice RUNTIME_LIMITS_MAX limits; 3 of the 4 kept ended or were unset in the last 30 days and still count; raise it in all processes",
  });
});
