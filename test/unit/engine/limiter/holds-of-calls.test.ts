// Holds as rules ask for them: which descriptors open and settle them, at what cost, and what they leave alone.

import { expect, test } from "vitest";
import { LimiterRig } from "../../../support/limiter-rig.ts";

const RULES = `
domain: edge
global_limit: { name: all, requests_per_unit: 1000, unit: hour, algorithm: fixed_window }
descriptors:
  - key: tenant
    rate_limit: { algorithm: fixed_window, requests_per_unit: 100, unit: hour }
    hold: { id: request_id, estimate: max_tokens, default: 20, max: 60, ttl: 120s }
  - key: calls
    rate_limit: { algorithm: fixed_window, requests_per_unit: 100, unit: hour }
  - key: job
    hold: { id: request_id, ttl: 60s }
    concurrent: 2
  - key: watched
    shadow_mode: true
    rate_limit: { algorithm: fixed_window, requests_per_unit: 30, unit: hour }
    hold: { id: request_id, ttl: 60s }
`;

/** What is left, by rule; a peek of one hit tells. */
function left(rig: LimiterRig, rule: string): number | undefined {
  return rig.hit({ [rule]: "a" }, 0).statuses[0]?.remaining;
}

function allLeft(rig: LimiterRig): number {
  return rig.hit({ nothing: "here" }, 0).statuses[0]?.remaining ?? -1;
}

test("a call pays what its estimate says, within the rule's bounds", () => {
  for (const [maxTokens, paid] of [
    ["50", 50],
    ["61", 60],
    ["4000000000", 60],
    ["0", 20],
    ["-5", 20],
    ["many", 20],
    [undefined, 20],
  ] as const) {
    const rig = new LimiterRig(RULES);
    const entries = { tenant: "a", request_id: "r1", ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }) };
    expect([maxTokens, rig.hit(entries).over, left(rig, "tenant")]).toEqual([maxTokens, false, 100 - paid]);
  }
});

test("its settlement leaves what was used, however that is reported", () => {
  const told: readonly [hits: number | undefined, hitsAddend: number, used: number][] = [
    [7, 0, 7],
    [0, 0, 0],
    [90, 0, 90],
    [undefined, 13, 13],
    [8, 13, 8],
    // Nobody has said what was used.
    [undefined, 0, 50],
  ];
  for (const [hits, hitsAddend, used] of told) {
    const rig = new LimiterRig(RULES);
    rig.hit({ tenant: "a", request_id: "r1", max_tokens: "50" });
    const entries = { tenant: "a", request_id: "r1", max_tokens: "50", settle: "" };
    const answer = rig.ask([hits === undefined ? { entries } : { entries, hits }], hitsAddend);
    expect([hits, hitsAddend, answer.over, left(rig, "tenant")]).toEqual([hits, hitsAddend, false, 100 - used]);
  }
});

test("a settlement asks no admission: not of the global limit, nor of rules without holds, nor of its own", () => {
  const rig = new LimiterRig(RULES);
  rig.hit({ tenant: "a", request_id: "r1", max_tokens: "60" });
  const before = allLeft(rig);
  for (let i = 0; i < 3; i++) {
    const answer = rig.ask([
      { entries: { tenant: "a", request_id: "r1", settle: "1" }, hits: 200 },
      { entries: { calls: "a", settle: "1" }, hits: 200 },
    ]);
    expect(answer.over).toBe(false);
  }
  expect([left(rig, "tenant"), left(rig, "calls"), allLeft(rig)]).toEqual([0, 100, before]);
  expect(rig.hit({ tenant: "a", request_id: "r2", max_tokens: "1" }).over).toBe(true);
});

test("a shadow rule that is over passes and holds nothing", () => {
  const rig = new LimiterRig(RULES);
  rig.hit({ watched: "a", request_id: "r1" }, 30);
  expect(rig.hit({ watched: "a", request_id: "r2" }, 30).over).toBe(false);
  rig.hit({ watched: "a", request_id: "r1", settle: "" }, 10);
  expect(left(rig, "watched")).toBe(20);
});

test("a limit that a call brings along is held and settled as the rule says", () => {
  const rig = new LimiterRig(RULES);
  const override = { amount: 1_000, unit: 3 };
  const ask = (entries: Record<string, string>, hits?: number) =>
    rig.ask([hits === undefined ? { entries, override } : { entries, override, hits }]).statuses[0];
  expect(ask({ tenant: "b", request_id: "r1", max_tokens: "50" })?.remaining).toBe(950);
  expect(ask({ tenant: "b", request_id: "r1", settle: "" }, 5)?.remaining).toBe(995);
  rig.ask([{ entries: { job: "b", request_id: "r1" }, override }]);
  rig.ask([{ entries: { job: "b", request_id: "r2" }, override }]);
  expect(rig.ask([{ entries: { job: "b", request_id: "r3" }, override }]).over).toBe(true);
});

test("a bucket with ten thousand holds takes no more, and its policy decides", () => {
  const rig = new LimiterRig(`
domain: edge
descriptors:
  - key: tenant
    on_store_failure: deny
    rate_limit: { algorithm: token_bucket, requests_per_unit: 1000000, unit: second }
    hold: { id: request_id, ttl: 1h }
`);
  for (let i = 0; i < 10_000; i++) rig.hit({ tenant: "a", request_id: `r${i}` });
  expect(rig.hit({ tenant: "a", request_id: "one more" }).over).toBe(true);
  expect(rig.observer.events.at(-2)).toMatch(/STORE_HOLDS_FULL$/);
  expect(rig.hit({ tenant: "b", request_id: "one more" }).over).toBe(false);
  rig.hit({ tenant: "a", request_id: "r7", settle: "" }, 1);
  expect(rig.hit({ tenant: "a", request_id: "one more" }).over).toBe(false);
});

test("places that all values of a rule share are shared by calls with an override, too", () => {
  const rig = new LimiterRig(`
domain: edge
descriptors:
  - key: model
    value: gpt*
    share_threshold: true
    rate_limit: { algorithm: fixed_window, requests_per_unit: 100, unit: hour }
    hold: { id: request_id, ttl: 60s }
    concurrent: 2
`);
  const ask = (model: string, id: string, more = {}) => rig.ask([{ entries: { model, request_id: id }, ...more }]).over;
  expect([ask("gpt-a", "1"), ask("gpt-b", "2")]).toEqual([false, false]);
  expect(ask("gpt-c", "3", { override: { amount: 50, unit: 3 } })).toBe(true);
});
