// The parts of a limit: all together at most the limit, each within the bounds of every limit.

import fc from "fast-check";
import { expect, test } from "vitest";
import { AMOUNT_MAX } from "../../../../src/base/units.ts";
import { Algorithm, partOfLimit, WINDOW_SECONDS_MAX } from "../../../../src/engine/domain/limit.ts";
import { makeLimit } from "../../../support/builders.ts";
import { runs } from "../../../support/runs.ts";

const amounts = fc.oneof(fc.nat(20), fc.integer({ min: 0, max: AMOUNT_MAX }));
const windows = fc.oneof(
  fc.integer({ min: 1, max: WINDOW_SECONDS_MAX }),
  fc.constantFrom(1, 60, 3_600, WINDOW_SECONDS_MAX),
);
const counts = fc.integer({ min: 1, max: 5_000 });

test("together the bursts and amounts are at most max(limit, count), and lack less than a token each", () => {
  fc.assert(
    fc.property(amounts, counts, fc.constantFrom(...Object.values(Algorithm)), (amount, count, algorithm) => {
      const limit = makeLimit({ algorithm, amount, burst: amount, windowSeconds: 60 });
      const part = partOfLimit(limit, count);
      expect(part.burst * count).toBeLessThanOrEqual(amount === 0 ? 0 : Math.max(amount, count));
      expect((part.burst + 1) * count).toBeGreaterThan(amount);
      if (algorithm !== Algorithm.tokenBucket) expect(part.amount).toBe(part.burst);
    }),
    { numRuns: runs(300) },
  );
});

// Promise(outages): The part of a limit that a process counts alone keeps the bounds of limits.
test("together the rates of a token bucket are at most its own, or a token each in more than half a year", () => {
  fc.assert(
    fc.property(amounts, windows, counts, (amount, windowSeconds, count) => {
      const limit = makeLimit({ amount, burst: 100, windowSeconds });
      const part = partOfLimit(limit, count);
      expect(Number.isSafeInteger(part.amount) && part.amount <= AMOUNT_MAX).toBe(true);
      expect(part.windowSeconds).toBeLessThanOrEqual(WINDOW_SECONDS_MAX);
      const isWithin =
        BigInt(part.amount) * BigInt(count) * BigInt(windowSeconds) <= BigInt(amount) * BigInt(part.windowSeconds);
      expect(isWithin || (part.amount === 1 && part.windowSeconds > WINDOW_SECONDS_MAX / 2)).toBe(true);
      expect(part.amount === 0).toBe(amount === 0);
    }),
    { numRuns: runs(500) },
  );
});

test("a rate that fits into a longer window is cut exactly", () => {
  const part = partOfLimit(makeLimit({ amount: 7, burst: 30, windowSeconds: 60 }), 4);
  expect(part).toMatchObject({ amount: 7, windowSeconds: 240, burst: 7 });
});
