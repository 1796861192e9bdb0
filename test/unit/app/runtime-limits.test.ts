// What operators are shown of limits at run time: what is in force for one caller, how many are, and whether they have seen the last change.

import { expect, test } from "vitest";
import { Unit } from "../../../src/engine/domain/limit.ts";
import { oneByteOf } from "../../../src/engine/domain/request.ts";
import { explainRequest } from "../../../src/engine/rules/explain.ts";
import type { AskedLimit, RuntimeChange } from "../../../src/engine/runtime/runtime-limit.ts";
import { createLogger } from "../../../src/operate/telemetry/logger.ts";
import { withRuntimeLimit } from "../../../src/process/app/explain-page.ts";
import { openRuntimeLimits } from "../../../src/process/app/runtime-limits.ts";
import { readSettings } from "../../../src/process/settings.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { rulesFromYaml } from "../../support/rules.ts";

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

function open(env: Readonly<Record<string, string>> = {}) {
  const clock = new ManualClock();
  const logger = createLogger({ level: "silent", format: "json", clock, secrets: [] });
  const options = { settings: readSettings(env), clock, logger, version: "" };
  const { source } = openRuntimeLimits(options, undefined, () => RULES);
  const set = async (caller: AskedLimit["caller"], change: RuntimeChange, more: Partial<AskedLimit> = {}) => {
    const asked = { caller, change, until: undefined, note: "INC-1", seenUs: undefined, ...more };
    return (await source.set([asked], "alice", { isDry: false, waits: false })).limits[0];
  };
  return { clock, source, set };
}

const callerOf = (entries: Readonly<Record<string, string>>): AskedLimit["caller"] => ({
  domain: "edge",
  entries: Object.entries(entries).map(([key, value]) => ({ key, value })),
});
const ACME = callerOf({ tenant: "acme" });
const BLOCK = { kind: "block", shadow: false } as const;
const explained = (
  caller: AskedLimit["caller"],
  limit: ReturnType<ReturnType<typeof open>["source"]["of"]>,
  shows = true,
) => {
  const [report] = explainRequest(RULES, caller.domain, [caller.entries]).descriptors;
  if (report === undefined) throw new Error("expected a report");
  return withRuntimeLimit(report, limit, shows);
};

test("counts what is in force by kind", async () => {
  const { clock, source, set } = open();
  expect(await source.counts()).toMatchObject({ inForce: {}, changedUs: undefined });
  await set(ACME, BLOCK, { until: { seconds: 60 } });
  await set(callerOf({ tenant: "b" }), { kind: "exempt", global: false });
  await set(callerOf({ tenant: "c" }), BLOCK);
  const { changes, ...counts } = await source.counts();
  expect(counts).toEqual({
    inForce: { block: 2, exempt: 1 },
    changedUs: source.of(callerOf({ tenant: "c" }))?.seen_us,
  });
  await set(callerOf({ tenant: "c" }), { kind: "none" });
  const after = await source.counts();
  expect(after.inForce).toEqual({ block: 1, exempt: 1 });
  expect(after.changes).toBeGreaterThan(changes);
  clock.advanceSeconds(60);
  expect((await source.counts()).inForce).toEqual({ exempt: 1 });
});

test("the newest are listed first, each once, and those that were unset not at all", async () => {
  const { source, set } = open();
  for (const tenant of ["a", "b", "c", "d", "a", "d"]) await set(callerOf({ tenant }), BLOCK);
  await set(callerOf({ tenant: "d" }), { kind: "none" });
  const { limits, next } = await source.list({ domain: "edge", after: undefined, countMax: 2, newest: true });
  expect(limits).toMatchObject([callerOf({ tenant: "a" }), callerOf({ tenant: "c" })]);
  expect(next).toBeUndefined();
});

test("an operator who was shown nothing may set a limit where one was unset or has ended, and not where one is in force", async () => {
  const { clock, set } = open();
  expect((await set(ACME, BLOCK, { seenUs: 0 }))?.outcome).toBe("set");
  expect(await set(ACME, BLOCK, { seenUs: 0 })).toMatchObject({
    outcome: "refused",
    says: expect.stringContaining("expected the limit that was shown"),
  });
  await set(ACME, { kind: "none" });
  expect((await set(ACME, BLOCK, { seenUs: 0, until: { seconds: 5 } }))?.outcome).toBe("set");
  clock.advanceSeconds(6);
  expect((await set(ACME, BLOCK, { seenUs: 0 }))?.outcome).toBe("set");
});

test("an explanation says what is set, and who set it and why only to holders of a token", async () => {
  const { source, set } = open();
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
  const { source, set } = open();
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
  const { source, set } = open();
  const amounts = [{ limit: oneByteOf("größe"), requests: 5, unit: Unit.unknown, burst: undefined }];
  expect(await set(callerOf({ city: "c" }), { kind: "amounts", amounts })).toMatchObject({ outcome: "set" });
  expect(source.of(callerOf({ city: "c" }))?.limits?.join()).toContain("5 hits per hour");
});

test("of a hidden value nothing is claimed about its rule", async () => {
  const { source, set } = open();
  await set(callerOf({ api_key: "secret" }), BLOCK);
  const { limits } = await source.list({ domain: "edge", after: undefined, countMax: 9, newest: false });
  expect(limits).toMatchObject([{ says: expect.stringContaining("its value is hidden") }]);
});

test("however long keys and notes are, what is set is in force, and can be unset", async () => {
  const { source, set } = open({ RUNTIME_LIMITS_MAX: "1000" });
  const caller = (i: number) => callerOf({ tenant: `${"k".repeat(900)}${i}` });
  const more = { note: "語".repeat(256) };
  let count = 0;
  while ((await set(caller(count), BLOCK, more))?.outcome === "set") count++;
  expect(count).toBeGreaterThan(200);
  expect(await set(caller(count), BLOCK, more)).toMatchObject({
    outcome: "refused",
    says: expect.stringContaining("expected room in memory"),
  });
  for (let i = 0; i < count; i++) expect(source.of(caller(i))).toBeDefined();
  for (let i = 0; i < count; i++) expect((await set(caller(i), { kind: "none" }))?.outcome).toBe("set");
  expect((await set(caller(count), BLOCK, more))?.outcome).toBe("set");
});

test("if limits that ended or were unset take the room, the refusal says how many they are", async () => {
  const { clock, set } = open({ RUNTIME_LIMITS_MAX: "2" });
  for (const tenant of ["a", "b"]) await set(callerOf({ tenant }), BLOCK);
  await set(callerOf({ tenant: "b" }), { kind: "none" });
  for (const tenant of ["c", "d"]) await set(callerOf({ tenant }), BLOCK, { until: { seconds: 60 } });
  clock.advanceSeconds(61);
  expect(await set(callerOf({ tenant: "e" }), BLOCK)).toMatchObject({
    outcome: "refused",
    says: "expected at most twice RUNTIME_LIMITS_MAX limits; 3 of the 4 kept ended or were unset in the last 30 days and still count; raise it in all processes",
  });
});
