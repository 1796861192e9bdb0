// What the operator's page makes of the server's history: rates, floods, charts, and the first line.

import fc from "fast-check";
import { expect, test } from "vitest";
import { pathOf, scaleTop } from "../../../page/charts.mjs";
import { callsOver, countOver, endsOf, lastFlood, ratesOf, refusingMost } from "../../../page/rates.mjs";
import { beforeWords, verdictOf } from "../../../page/verdict.mjs";
import type { HistoryView } from "../../../src/operate/telemetry/rate-history.ts";

const AT = "2026-11-27T17:15:00.000Z";
const atMs = Date.parse(AT);

/** A history of samples of five seconds: how many calls were allowed and refused in each. */
function historyOf(calls: readonly (readonly [allowed: number, refused: number])[], seconds = 5): HistoryView {
  const allowed = calls.map(([count]) => count);
  const refused = calls.map(([, count]) => count);
  const none = calls.map(() => 0);
  const unknown = calls.map(() => null);
  return {
    at: AT,
    seconds: calls.map(() => seconds),
    calls: { allowed, refused, degraded: none, errors: none },
    times_us: { decision_p50: unknown, decision_p99: unknown, store_p50: unknown, store_p99: unknown },
    limits: { "edge/user": { hits: allowed.map((count, i) => count + (refused[i] ?? 0)), refused } },
  };
}

const many = <T>(count: number, value: T) => Array.from({ length: count }, () => value);
const stateOf = (...conditions: { id: string; severity: string; says: string }[]) =>
  ({ status: conditions[0]?.severity ?? "well", conditions, store: "redis" }) as unknown as Parameters<
    typeof verdictOf
  >[0]["state"];
const topOf = (refused: number, key: number) => ({
  at: AT,
  window: "minute" as const,
  window_seconds: 60,
  by: "refused" as const,
  refused,
  keys: [
    {
      domain: "edge",
      rule: "user",
      limit: "",
      key: "user=ann",
      descriptor: [{ key: "user", value: "ann" }],
      asked: key,
      refused: key,
      refused_overcount: 0,
      refused_since: null,
    },
  ],
});

test("a rate is what was counted by the length of its sample; of a sample that is in part meant that part counts", () => {
  const history = historyOf([
    [10, 0],
    [20, 0],
  ]);
  expect(ratesOf(history, [10, null])).toEqual([2, null]);
  expect(endsOf(history)).toEqual([atMs - 5_000, atMs]);
  expect(countOver(history, history.calls.allowed, atMs - 6_000, atMs - 2_500)).toBe(2 + 10);
});

test("parts of a history add up to all of it, wherever it is cut", () => {
  const sample = fc.tuple(fc.nat(1_000), fc.nat(1_000));
  fc.assert(
    fc.property(
      fc.array(sample, { minLength: 1, maxLength: 180 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (calls, at) => {
        const history = historyOf(calls);
        const fromMs = atMs - calls.length * 5_000;
        const cutMs = fromMs + at * (atMs - fromMs);
        const all = calls.reduce((sum, [allowed]) => sum + allowed, 0);
        const parts = [fromMs, cutMs].map((start, i) =>
          countOver(history, history.calls.allowed, start, i === 0 ? cutMs : atMs),
        );
        expect((parts[0] ?? 0) + (parts[1] ?? 0)).toBeCloseTo(all, 3);
        expect(callsOver(history, cutMs, atMs + 1).refused).toBeLessThanOrEqual(1);
      },
    ),
  );
});

test("a flood goes on through a pause of less than a minute, and is over when none of its refusals is of the last samples", () => {
  const flooded = [4, 6] as const;
  const quiet = [10, 0] as const;
  const history = historyOf([...many(3, quiet), flooded, ...many(11, quiet), flooded, flooded]);
  expect(lastFlood(history)).toMatchObject({ fromMs: atMs - 14 * 5_000, toMs: atMs, isNow: true });
  expect(lastFlood(historyOf([...many(3, flooded), ...many(5, quiet)]))).toEqual({
    fromMs: atMs - 8 * 5_000,
    toMs: atMs - 5 * 5_000,
    isNow: false,
    share: 0.6,
  });
  expect(lastFlood(historyOf(many(20, [1_000, 10] as const)))).toBe(undefined);
  expect(lastFlood(historyOf([[0, 4]]))).toBe(undefined);
  expect(lastFlood(null)).toBe(undefined);
});

test("the rule that refuses most is named with its part", () => {
  const history = historyOf(many(4, [0, 3] as const));
  const both = { ...history, limits: { ...history.limits, "edge/x": { hits: many(4, 1), refused: many(4, 1) } } };
  expect(refusingMost(both, atMs - 20_000, atMs)).toEqual({ id: "edge/user", part: 0.75 });
});

const STORE = { id: "store", severity: "critical", says: "Redis refuses connections." };
const LATE = { id: "loopLate", severity: "warning", says: "3 answers were late" };
const UNDECIDED = { id: "undecided", severity: "warning", says: "Calls passed" };

test.each([
  ["nothing", stateOf(), historyOf(many(24, [10, 0])), "All is well.", "well"],
  ["few refusals", stateOf(), historyOf(many(24, [98, 2])), "All is well; 2 % of calls refused.", "well"],
  [
    "a flood",
    stateOf(),
    historyOf(many(12, [36, 64])),
    /^64 % of calls refused since \S+, mostly user=ann by rule user of edge\.$/,
    "warning",
  ],
  [
    "a flood that is over",
    stateOf(),
    historyOf([...many(12, [36, 64] as const), ...many(12, [36, 0] as const)]),
    /^All is well now; 64 % of calls were refused from \S+ to \S+, mostly user=ann by rule user of edge\.$/,
    "well",
  ],
  [
    "a store that is away",
    stateOf(STORE, LATE),
    historyOf(many(24, [9, 0])),
    "The store is away, and 1 more to check.",
    "critical",
  ],
  [
    "it and a flood",
    stateOf(STORE),
    historyOf(many(12, [1, 9])),
    /^The store is away\. 90 % of calls refused since /,
    "critical",
  ],
  ["a warning", stateOf(LATE), null, "1 thing to check, nothing urgent.", "warning"],
  [
    "a warning and a flood",
    stateOf(LATE),
    historyOf(many(12, [1, 9])),
    /^90 % of calls refused .*\. 1 thing to check/,
    "warning",
  ],
  ["calls without a decision", stateOf(UNDECIDED), null, "Calls passed without a decision.", "warning"],
] as const)("of %s the first line says so", (_, state, history, says, colour) => {
  expect(verdictOf({ state, history, top: topOf(100, 80) })).toEqual({
    says: typeof says === "string" ? says : expect.stringMatching(says),
    colour,
  });
});

test("a store that is away answers nothing, whatever it took to answer a minute ago", () => {
  const history = historyOf(many(3, [5, 0]));
  const answered = { ...history, times_us: { ...history.times_us, store_p99: many(3, 1_200) } };
  const storeOf = (...conditions: { id: string; severity: string; says: string }[]) =>
    beforeWords({ state: stateOf(...conditions), history: answered, top: undefined });
  expect(storeOf()).toBe("Store: redis, p99 1.2 ms.");
  expect(storeOf(STORE)).toBe("Store: redis, away.");
});

test("where no key has most of the refusals, the rule that has is named", () => {
  const history = historyOf(many(12, [1, 9]));
  expect(verdictOf({ state: stateOf(), history, top: topOf(100, 3) }).says).toMatch(/, mostly by rule edge\/user\.$/);
});

test('failing calls rule out "All is well"', () => {
  const history = historyOf(many(12, [9, 0]));
  const failing = { ...history, calls: { ...history.calls, errors: many(12, 3) } };
  expect(verdictOf({ state: stateOf(), history: failing, top: undefined }).says).toBe("25 % of calls fail.");
});

test.each([
  [
    "ten minutes ago",
    historyOf([...many(60, [10, 10] as const), ...many(119, [5, 0] as const)]),
    /^10 min ago: 4\.0 calls per second, 50 % refused\. Store: /,
  ],
  [
    "as long ago as is known",
    historyOf(many(36, [5, 0])),
    /^2 min ago: 1\.0 calls per second, none refused\. Store: redis, not asked/,
  ],
  ["nothing yet", historyOf(many(3, [5, 0])), /^Store: redis/],
])("before is %s", (_, history, says) => {
  expect(beforeWords({ state: stateOf(), history, top: undefined })).toMatch(says);
});

test("a chart ends at its right edge, its samples are steps, and a gap divides its line", () => {
  const seconds = many(3, 5);
  const ends = [0, 5_000, 10_000];
  expect(pathOf([0, 10, 10], seconds, ends, 2, false)).toBe("M354.0 59.0H356.0L356.0 39.0H358.0L358.0 39.0H360.0");
  expect(pathOf([5, null, 5], seconds, ends, 1, false)).toBe("M354.0 54.0H356.0M358.0 54.0H360.0");
  expect(pathOf([1, null, 1], seconds, ends, 1, true)).toBe("M354.0 59.0H356.0V60H354.0ZM358.0 59.0H360.0V60H358.0Z");
  expect(pathOf([], [], [], 1, true)).toBe("");
});

test("the scale ends at the next round number", () => {
  expect([0, 0.3, 1, 1.1, 4, 6, 61, 1_001].map(scaleTop)).toEqual([1, 1, 1, 2, 4, 6, 70, 2_000]);
});
