// One request in, one decision out: rules from text, a store that settles at once, time by hand.

import { describe, expect, test } from "vitest";
import { AMOUNT_MAX } from "../../../../src/base/units.ts";
import { Unit } from "../../../../src/engine/domain/limit.ts";
import { LimitCall } from "../../../../src/engine/limiter/call.ts";
import { LimiterRig } from "../../../support/limiter-rig.ts";

const GLOBAL_AND_KEYS = `
domain: edge
global_limit: { requests_per_unit: 5, unit: second, algorithm: fixed_window }
descriptors:
  - key: user
    rate_limit: { requests_per_unit: 3, unit: minute, algorithm: fixed_window }
  - key: free
    rate_limit: { unlimited: true }
`;

describe("the global limit", () => {
  // Promise(calls): Many keys together can't pass the global limit.
  test("can't be exceeded by many keys together, and shows in every status when it refuses", () => {
    const rig = new LimiterRig(GLOBAL_AND_KEYS);
    const allowed = Array.from({ length: 20 }, (_, i) => rig.hit({ user: `u${i}` })).filter(({ over }) => !over);
    expect(allowed).toHaveLength(5);
    const refused = rig.ask([{ entries: { user: "new" } }, { entries: { other: "x" } }]);
    expect(refused.over).toBe(true);
    expect(refused.statuses.map(({ over, amount }) => ({ over, amount }))).toEqual([
      { over: true, amount: 5 },
      { over: true, amount: 5 },
    ]);
  });

  test("still counts what an unlimited rule exempts", () => {
    const rig = new LimiterRig(GLOBAL_AND_KEYS);
    const answers = Array.from({ length: 6 }, () => rig.hit({ free: "x" }));
    expect(answers.map(({ over }) => over)).toEqual([false, false, false, false, false, true]);
    expect(answers[0]?.statuses[0]).toMatchObject({ remaining: AMOUNT_MAX, amount: undefined });
  });

  test.each([
    { name: "counts one per call however many hits", hits: 4, count: "calls", left: 9 },
    { name: "counts the call's hits with count: hits", hits: 4, count: "hits", left: 6 },
  ])("$name", ({ hits, count, left }) => {
    const rig = new LimiterRig(`
domain: edge
global_limit: { requests_per_unit: 10, unit: hour, count: ${count} }
`);
    expect(rig.ask([{ entries: { a: "1" } }], hits).statuses[0]?.remaining).toBe(left);
  });

  test("is peeked at by calls of peeks, and left alone by refunds", () => {
    const rig = new LimiterRig(GLOBAL_AND_KEYS);
    rig.ask([{ entries: { user: "a" }, hits: 0 }]);
    rig.ask([{ entries: { user: "a" }, hits: 1, refund: true }]);
    expect(rig.hit({ other: "x" }).statuses[0]?.remaining).toBe(4);
    expect(rig.ask([{ entries: { none: "a" }, hits: 1, refund: true }]).statuses[0]?.amount).toBeUndefined();
  });
});

describe("several limits of one rule", () => {
  const RULES = `
domain: edge
descriptors:
  - key: tenant
    rate_limits:
      - { name: per-second, requests_per_unit: 2, unit: second, algorithm: fixed_window }
      - { name: per-day, requests_per_unit: 3, unit: day, algorithm: fixed_window }
`;

  // Promise(calls): The strictest of a call's limits decides and is shown.
  test("let the strictest decide and show: refusing before allowing, the longest wait, the least remaining", () => {
    const rig = new LimiterRig(RULES);
    expect(rig.hit({ tenant: "t" }).statuses[0]).toMatchObject({ amount: 2, remaining: 1 });
    rig.hit({ tenant: "t" });
    expect(rig.hit({ tenant: "t" }).statuses[0]).toMatchObject({ over: true, amount: 2, reset: 1 });
    rig.clock.advanceSeconds(1);
    expect(rig.hit({ tenant: "t" }).statuses[0]).toMatchObject({ over: false, amount: 3, remaining: 0 });
    expect(rig.hit({ tenant: "t" }).statuses[0]).toMatchObject({ over: true, amount: 3 });
  });
});

describe("peek, refund, post-paid", () => {
  const RULES = `
domain: edge
descriptors:
  - { key: k, rate_limit: { requests_per_unit: 2, unit: hour } }
  - { key: llm, post_paid: true, rate_limit: { tokens_per_second: 1, burst: 10 } }
  - { key: late, rate_limit: { tokens_per_second: 1, burst: 80 } }
  - { key: much, rate_limit: { tokens_per_second: 1, burst: 80000 } }
  - { key: given, charge_given_hits: true, rate_limit: { tokens_per_second: 1, burst: 80 } }
  - { key: held, hold: { id: id, ttl: 60s }, rate_limit: { tokens_per_second: 1, burst: 80 } }
`;

  // What the callers of one bucket ask, as hits; a number twice is a call without hits of its own.
  const turns = (times: number, ...hits: number[]) => Array.from({ length: times }, () => hits).flat();

  // Promise(limits): Reports that never make their limit refuse are noticed, with what the rule needs.
  test.each([
    { name: "reports on a rule that is also peeked at", rule: "late", hits: [0, 90], says: "post_paid" },
    {
      name: "large reports in turns with small requests",
      rule: "late",
      hits: turns(13, 1, 90),
      says: "charge_given_hits",
    },
    { name: "reports beyond the limit that nobody asks about", rule: "llm", hits: turns(21, 1), says: "asking" },
    { name: "large calls among many small ones", rule: "much", hits: turns(20, 1, 1, 90_000), says: undefined },
    { name: "large calls that are refused", rule: "much", hits: turns(40, 90_000), says: undefined },
    { name: "a few turns", rule: "much", hits: turns(9, 1, 90_000), says: undefined },
    { name: "costs that differ little", rule: "much", hits: turns(20, 9_000, 89_999), says: undefined },
    { name: "reports with peeks before", rule: "llm", hits: [0, ...turns(30, 1)], says: undefined },
    { name: "reports within the limit", rule: "llm", hits: turns(10, 1), says: undefined },
    { name: "hits that are charged anyway", rule: "given", hits: turns(30, 1, 90), says: undefined },
    { name: "estimates of holds", rule: "held", hits: turns(20, 1, 90), says: undefined },
    { name: "estimates of holds that are peeked at", rule: "held", hits: [0, 12], says: undefined },
  ])("of $name: $says is missing", ({ rule, hits, says }) => {
    const rig = new LimiterRig(RULES);
    for (const each of hits) rig.hit({ [rule]: "a" }, each);
    const found = rig.observer.events.filter((event) => event.startsWith("report "));
    expect([...new Set(found)]).toEqual(says === undefined ? [] : [`report ${says} edge/${rule}`]);
  });

  test("turns are found on one of many buckets, of which another one is watched after a while", () => {
    const rig = new LimiterRig(RULES);
    rig.hit({ late: "only once" }, 90);
    for (let i = 0; i < 65; i++) rig.hit({ late: "refused" }, 90);
    for (const hits of turns(13, 1, 90)) rig.hit({ late: "a" }, hits);
    expect(rig.observer.events).not.toContainEqual(expect.stringMatching(/^report/));
    for (const hits of turns(130, 1, 90)) {
      rig.hit({ late: "b" }, hits);
      rig.clock.advanceSeconds(1);
    }
    expect(rig.observer.events).toContainEqual("report charge_given_hits edge/late");
  });

  test("hits beyond debt_max are counted as not recorded", () => {
    const rig = new LimiterRig(RULES);
    rig.hit({ llm: "a" }, 150);
    expect(rig.observer.events).toContainEqual(expect.stringMatching(/^capped .*llm.* 50$/));
  });
});

describe("kinds of descriptors", () => {
  const RULES = `
domain: edge
descriptors:
  - { key: s, shadow_mode: true, rate_limit: { requests_per_unit: 1, unit: hour } }
  - { key: k, rate_limit: { requests_per_unit: 1, unit: hour } }
`;

  test("a shadow rule counts, says so, and never refuses", () => {
    const rig = new LimiterRig(RULES);
    rig.hit({ s: "a" });
    const answer = rig.hit({ s: "a" });
    expect(answer).toMatchObject({ over: false, wasShadowed: true });
    expect(answer.statuses[0]).toMatchObject({ over: false, remaining: 0 });
    expect(rig.statsBook.stats.get("edge|s|")).toMatchObject({ shadowMode: 1, overLimit: 1, totalHits: 2 });
  });

  test("SHADOW_MODE lets all pass, keeps the codes of the statuses, and counts what it let pass", () => {
    const rig = new LimiterRig(RULES, { shadowMode: true });
    rig.hit({ k: "a" });
    const answer = rig.hit({ k: "a" });
    expect(answer.over).toBe(false);
    expect(answer.statuses[0]?.over).toBe(true);
    expect(rig.observer.events.filter((event) => event === "global shadow")).toHaveLength(1);
  });
});

describe("replaces", () => {
  const RULES = `
domain: edge
descriptors:
  - { key: a, rate_limit: { name: base, requests_per_unit: 1, unit: hour } }
  - { key: b, rate_limit: { requests_per_unit: 5, unit: hour, replaces: [{ name: base }] } }
`;

  test("disables the named limit in a call that finds both", () => {
    const rig = new LimiterRig(RULES);
    const both = [{ entries: { a: "x" } }, { entries: { b: "x" } }];
    expect([1, 2, 3].map(() => rig.ask(both).over)).toEqual([false, false, false]);
    expect(rig.ask(both).statuses[0]).toMatchObject({ amount: undefined, remaining: 0, reset: undefined });
  });
});

describe("overrides", () => {
  const RULES = "domain: edge\ndescriptors:\n  - { key: a, rate_limit: { requests_per_unit: 5, unit: hour } }\n";

  test.each([0, 8, 99, -1])("with unit %d are a request error", (unit) => {
    const rig = new LimiterRig(RULES);
    const descriptor = { entries: { a: "x" }, override: { amount: 4, unit } };
    expect(() => rig.ask([descriptor])).toThrow(expect.objectContaining({ code: "REQUEST_OVERRIDE_UNIT" }));
  });

  test("of an unknown domain mean nothing", () => {
    const rig = new LimiterRig(RULES);
    const answer = rig.ask([{ entries: { a: "x" }, override: { amount: 0, unit: Unit.hour } }], 0, "elsewhere");
    expect(answer.over).toBe(false);
    expect(rig.observer.events).toContain("domain not found");
  });
});

describe("cost entries", () => {
  const RULES = `
domain: edge
descriptors:
  - key: api_key
    cost: { entry: weight, default: 2, max: 5 }
    rate_limit: { tokens_per_second: 1, burst: 10 }
  - key: plain
    rate_limit: { requests_per_unit: 10, unit: hour }
`;

  // Promise(rules): A cost is 1 or read from an entry: the default if absent or not a number, at most `max`.
  test.each([
    { name: "the number in the entry", weight: "4", remaining: 6 },
    { name: "the default for what is no number", weight: "lots", remaining: 8 },
    { name: "at most max", weight: "900", remaining: 5 },
  ])("make a hit cost $name", ({ weight, remaining }) => {
    const rig = new LimiterRig(RULES);
    expect(rig.hit({ api_key: "k", weight }).statuses[0]?.remaining).toBe(remaining);
  });

  test("take no part in matching and keys, throughout the domain", () => {
    const rig = new LimiterRig(RULES);
    rig.hit({ weight: "3", api_key: "k" });
    expect(rig.hit({ api_key: "k", weight: "1" }).statuses[0]?.remaining).toBe(6);
    expect(rig.hit({ plain: "p", weight: "1" }).statuses[0]?.remaining).toBe(9);
  });
});

test.each([
  { name: "finished", listener: () => undefined, ends: ["finish"] },
  {
    name: "failed, if it can't be concluded",
    listener: () => {
      throw new Error("ours");
    },
    ends: ["fail ours"],
  },
])("a call that the store settles later is $name, once", ({ listener, ends }) => {
  const rig = new LimiterRig(`domain: edge\ndescriptors: [{ key: a, rate_limit: { tokens_per_second: 1 } }]`, {
    openListener: () => ({ decided: listener }),
  });
  rig.store.holdsBack = true;
  const seen: string[] = [];
  const finisher = {
    finish: ({ decision }: LimitCall) => void seen.push(decision.overLimit ? "over" : "finish"),
    fail: (_: LimitCall, error: unknown) => void seen.push(`fail ${(error as Error).message}`),
  };
  const call = rig.fill(new LimitCall(finisher), [{ entries: { a: "x" } }]);
  expect(rig.limiter.decide(call, Number.POSITIVE_INFINITY)).toBe(false);
  expect(seen).toEqual([]);
  rig.store.release();
  expect(seen).toEqual(ends);
});
