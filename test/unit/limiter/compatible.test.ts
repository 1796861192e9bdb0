// Calls under COMPATIBILITY_MODE: what is charged, answered and counted, on a store in memory.

import { describe, expect, test } from "vitest";
import { LimiterRig } from "../../support/limiter-rig.ts";

const RULES = `
domain: edge
descriptors:
  - { key: ten, rate_limit: { unit: minute, requests_per_unit: 10 } }
  - { key: two, rate_limit: { unit: hour, requests_per_unit: 2 } }
  - { key: ghost, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: q1, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: bucket, rate_limit: { tokens_per_second: 1, burst: 3 } }
`;

const rigOf = (options = {}) => new LimiterRig(RULES, { compatible: true, ...options });
const statsOf = (rig: LimiterRig, rule: string) => rig.statsBook.stats.get(`edge|${rule}|`);

test("the global limit governs a call that has no other one, and so has headers", () => {
  const global = "global_limit: { requests_per_unit: 5, unit: hour, algorithm: fixed_window }";
  const rig = new LimiterRig(`${RULES}${global}\n`, { compatible: true });
  expect(rig.hit({ nothing: "here" })).toMatchObject({ over: false, governing: "edge#global" });
  expect(rig.hit({ two: "a" }).governing).toBe("edge/two");
});

describe("each limit is charged for itself, always", () => {
  test("refused hits are charged, those of other limits too", () => {
    const rig = rigOf();
    rig.ask([{ entries: { two: "a" } }], 3);
    const both = [{ entries: { two: "a" } }, { entries: { ten: "a" } }];
    expect(rig.ask(both)).toMatchObject({ over: true, statuses: [{ over: true }, { over: false, remaining: 9 }] });
    expect(rig.hit({ ten: "a" }).statuses[0]?.remaining).toBe(8);
  });

  test("a window ends on the minute, whatever was asked when", () => {
    const rig = rigOf();
    const intoWindowS = Math.floor(rig.clock.nowUs() / 1_000_000) % 60;
    expect(rig.hit({ ten: "a" }).statuses[0]).toMatchObject({ remaining: 9, reset: 60 - intoWindowS });
    rig.clock.advanceUs((60 - intoWindowS) * 1_000_000);
    expect(rig.hit({ ten: "a" }).statuses[0]).toMatchObject({ remaining: 9, reset: 60 });
  });
});

describe("stopping at over charges only what is over", () => {
  test("the others keep their count, and every status its own", () => {
    const rig = rigOf({ stopsAtOver: true });
    const both = [{ entries: { ten: "a" } }, { entries: { two: "a" } }];
    rig.ask(both, 2);
    expect(rig.ask(both)).toMatchObject({ over: true, statuses: [{ over: false, remaining: 8 }, { over: true }] });
    expect(rig.hit({ ten: "a" }).statuses[0]?.remaining).toBe(7);
  });

  test("a counter that the local cache denies keeps all others uncharged", () => {
    const rig = rigOf({ stopsAtOver: true, localCacheBytes: 1 });
    const both = [{ entries: { ten: "a" } }, { entries: { two: "a" } }];
    rig.ask(both, 3);
    rig.ask(both, 9);
    expect(rig.hit({ ten: "a" }).statuses[0]?.remaining).toBe(9);
  });
});

describe("the local cache", () => {
  test("answers without the store, and counts it", () => {
    const rig = rigOf({ localCacheBytes: 1 });
    rig.hit({ two: "a" }, 3);
    const asked = rig.store.seen.length;
    expect(rig.hit({ two: "a" }, 2)).toMatchObject({ over: true, statuses: [{ over: true, remaining: 0 }] });
    expect(rig.store.seen.length).toBe(asked);
    expect(statsOf(rig, "two")).toMatchObject({ totalHits: 5, overLimit: 3, overLimitWithLocalCache: 2 });
  });

  test("a shadow rule that it denies still passes", () => {
    const rig = rigOf({ localCacheBytes: 1 });
    rig.hit({ ghost: "a" }, 2);
    expect(rig.hit({ ghost: "a" })).toMatchObject({ over: false, statuses: [{ over: false, remaining: 0 }] });
    expect(statsOf(rig, "ghost")).toMatchObject({ shadowMode: 2, overLimitWithLocalCache: 1 });
  });
});

describe("hits are counted by what the count was before and after them", () => {
  test.each([
    { name: "within", before: 3, hits: 2, expected: { withinLimit: 2, nearLimit: 0, overLimit: 0 } },
    { name: "reaching near", before: 7, hits: 2, expected: { withinLimit: 2, nearLimit: 1, overLimit: 0 } },
    { name: "all near", before: 8, hits: 2, expected: { withinLimit: 2, nearLimit: 2, overLimit: 0 } },
    { name: "from below near to over", before: 7, hits: 5, expected: { withinLimit: 0, nearLimit: 2, overLimit: 2 } },
    { name: "all over", before: 10, hits: 4, expected: { withinLimit: 0, nearLimit: 0, overLimit: 4 } },
    { name: "none", before: 10, hits: 0, expected: { withinLimit: 0, nearLimit: 0, overLimit: 0 } },
  ])("$name", ({ before, hits, expected }) => {
    const rig = rigOf();
    rig.hit({ ten: "a" }, before);
    const stats = statsOf(rig, "ten");
    const { withinLimit = 0, nearLimit = 0, overLimit = 0 } = stats ?? {};
    rig.hit({ ten: "a" }, hits);
    expect({
      withinLimit: (stats?.withinLimit ?? 0) - withinLimit,
      nearLimit: (stats?.nearLimit ?? 0) - nearLimit,
      overLimit: (stats?.overLimit ?? 0) - overLimit,
    }).toEqual(expected);
  });
});

describe("the headers' descriptor", () => {
  test.each([
    { name: "the least remaining, the first of equals", asked: ["two", "q1", "ten"], governs: "edge/q1" },
    { name: "the last that refuses", asked: ["two", "ten", "ten", "two"], hits: 11, governs: "edge/two" },
    {
      name: "a refusing one before a quota descriptor that is over",
      asked: ["q1", "two", "q1"],
      hits: 3,
      governs: "edge/two",
    },
  ])("is $name", ({ asked, hits, governs }) => {
    const descriptors = asked.map((key, i) => ({ entries: { [key]: String(i) } }));
    expect(rigOf().ask(descriptors, hits).governing).toBe(governs);
  });
});
