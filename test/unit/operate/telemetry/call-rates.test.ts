// What is read of the history of calls: their outcomes over a time, and floods.

import fc from "fast-check";
import { expect, test } from "vitest";
import {
  callsOver,
  countBetween,
  endsOf,
  lastFlood,
  refusingMost,
} from "../../../../src/operate/telemetry/call-rates.ts";
import { AT, historyOf, many } from "../../../support/call-history.ts";

const atMs = Date.parse(AT);

test("of a sample that is in part meant that part counts", () => {
  const history = historyOf([
    [10, 0],
    [20, 0],
  ]);
  expect(endsOf(history)).toEqual([atMs - 5_000, atMs]);
  expect(countBetween(history, history.calls.allowed, atMs - 6_000, atMs - 2_500)).toBe(2 + 10);
});

test("the rate of a minute is that of the part of it that is known", () => {
  const known = [
    [10, 0],
    [20, 0],
  ] as const;
  expect(callsOver(historyOf([...known]), atMs - 60_000, atMs).perSecond).toBe(3);
  expect(callsOver(historyOf([...known]), atMs - 120_000, atMs - 60_000).perSecond).toBe(0);
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
          countBetween(history, history.calls.allowed, start, i === 0 ? cutMs : atMs),
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
  // Blocks refuse on purpose.
  expect(lastFlood(historyOf(many(20, [10, 40, 40] as const)))).toBe(undefined);
  expect(lastFlood(historyOf(many(20, [10, 40, 30] as const)))).toMatchObject({ share: 0.2 });
});

test("the rule that refuses most is named with its part", () => {
  const history = historyOf(many(4, [0, 3] as const));
  const both = { ...history, limits: { ...history.limits, "edge/x": { hits: many(4, 1), refused: many(4, 1) } } };
  expect(refusingMost(both, atMs - 20_000, atMs)).toEqual({ id: "edge/user", part: 0.75 });
});
