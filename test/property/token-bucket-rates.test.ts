// Token buckets of every rate that rule files can name, against exact rationals: BigInt, and no idea of ticks.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AMOUNT_MAX } from "../../src/base/units.ts";
import { Algorithm, UNIT_SECONDS } from "../../src/engine/domain/limit.ts";
import { Outcome } from "../../src/engine/domain/take.ts";
import { rateOfDecimal, reduceRate } from "../../src/engine/rules/limit-shape.ts";
import { runs } from "../support/runs.ts";
import type { History, LimitNumbers } from "./histories.ts";
import { bucketNumbers, decimals } from "./rates.ts";
import { SingleBucket } from "./single-bucket.ts";

const YEAR_US = 31_536_000_000_000;

/** Steps from nothing to a year, most of them near the times at which tokens return. */
function steps(limit: LimitNumbers): fc.Arbitrary<number> {
  const perTokenUs = Math.min(YEAR_US, Math.ceil((limit.windowSeconds * 1_000_000) / limit.amount));
  return fc.oneof(
    { weight: 2, arbitrary: fc.constantFrom(0, 1, 2, limit.windowSeconds) },
    { weight: 3, arbitrary: fc.integer({ min: 0, max: 2 * perTokenUs }) },
    { weight: 2, arbitrary: fc.integer({ min: 0, max: 100_000 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: YEAR_US }) },
  );
}

const CALLS = bucketNumbers().chain((limit) =>
  fc.record({
    limit: fc.constant(limit),
    calls: fc.array(
      fc.record({ stepUs: steps(limit), cost: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: limit.burst })) }),
      { minLength: 1, maxLength: 60 },
    ),
  }),
);

// Promise(rules): A rate is kept exactly, to the last digit, or rejected with the reason.
test("a rate written in decimal is kept exactly or refused with the reason, whatever its digits", () => {
  let refused = 0;
  fc.assert(
    fc.property(decimals(), ({ text, numerator, denominator }) => {
      const rate = rateOfDecimal(text);
      if (typeof rate === "string") {
        refused++;
        // Nothing is refused that a window of up to a year and an amount below 2^32 could say.
        const divisor = gcd(numerator, denominator);
        const isKept = numerator / divisor <= BigInt(AMOUNT_MAX) && denominator / divisor <= 31_536_000n;
        expect(isKept).toBe(false);
        expect(rate).toMatch(/^too (large|many)/);
      } else expect(BigInt(rate.amount) * denominator).toBe(numerator * BigInt(rate.windowSeconds));
    }),
    {
      numRuns: runs(2_000),
      examples: [[exampleOf("100000000.5")], [exampleOf("33.3333333")], [exampleOf("1.0000001")]],
    },
  );
  expect(refused).toBeGreaterThan(0);
});

describe("a token bucket of any rate", () => {
  // Promise(limits): No part of a token is lost between calls.
  // Promise(limits): In any time t at most burst + rate x t pass, and a caller who always asks gets at most one token less.
  test("lets at most burst + rate x t pass in any time t, and a caller who always asks no less but for a token", () => {
    fc.assert(
      fc.property(CALLS, ({ limit, calls }) => {
        const bucket = new SingleBucket(freshOf(limit));
        const [rate, window] = [BigInt(limit.amount), BigInt(limit.windowSeconds) * 1_000_000n];
        // The level in exact rationals, over the window: parts of a millionth of a token count here.
        let exact = BigInt(limit.burst) * window;
        for (const { stepUs, cost } of calls) {
          bucket.clock.advanceUs(stepUs);
          exact += BigInt(stepUs) * rate;
          if (exact > BigInt(limit.burst) * window) exact = BigInt(limit.burst) * window;
          const { paid, remaining } = bucket.pay(cost);
          const price = BigInt(cost) * window;
          if (paid) exact -= price;
          // Nothing passes that exact arithmetic refuses; refused is what lacks a millionth of a token at most.
          expect(exact).toBeGreaterThanOrEqual(0n);
          if (!paid) expect(exact - price).toBeLessThan(window / 1_000_000n + 1n);
          expect(BigInt(remaining) * window).toBeLessThanOrEqual(exact);
        }
      }),
      { numRuns: runs(400) },
    );
  });

  test("tells waits and resets that are right to the microsecond", () => {
    fc.assert(
      fc.property(CALLS, ({ limit, calls }) => {
        const bucket = new SingleBucket(freshOf(limit));
        for (const { stepUs, cost } of calls.slice(0, 12)) {
          bucket.clock.advanceUs(stepUs);
          const { waitUs, outcome } = bucket.pay(cost);
          expect(outcome).not.toBe(Outcome.never);
          expect(waitUs > 0).toBe(outcome === Outcome.over);
          if (waitUs === 0 || waitUs > YEAR_US) continue;
          bucket.clock.advanceUs(waitUs - 1);
          expect(bucket.peek(cost).outcome).toBe(Outcome.over);
          bucket.clock.advanceUs(1);
          expect(bucket.peek(cost).outcome).toBe(Outcome.room);
          const { resetUs } = bucket.peek(1);
          if (resetUs === 0 || resetUs > YEAR_US) continue;
          bucket.clock.advanceUs(resetUs - 1);
          expect(bucket.peek(1).resetUs).toBe(1);
          bucket.clock.advanceUs(1);
          expect(bucket.peek(1)).toMatchObject({ resetUs: 0, remaining: limit.burst });
        }
      }),
      { numRuns: runs(200) },
    );
  });
});

test.each(UNIT_SECONDS.slice(1).map((seconds) => ({ seconds })))(
  "requests per unit as a token bucket refills evenly over $seconds s",
  ({ seconds }) => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: AMOUNT_MAX }), fc.integer({ min: 1, max: 40 }), (perUnit, tokens) => {
        const { amount, windowSeconds } = reduceRate(perUnit, seconds);
        const limit = { algorithm: Algorithm.tokenBucket, amount, burst: perUnit, windowSeconds, debtMax: perUnit };
        const bucket = new SingleBucket(freshOf(limit));
        bucket.pay(perUnit);
        const due =
          (BigInt(Math.min(tokens, perUnit)) * BigInt(seconds) * 1_000_000n + BigInt(perUnit) - 1n) / BigInt(perUnit);
        const cost = Math.min(tokens, perUnit);
        bucket.clock.advanceUs(Number(due) - 1);
        expect(bucket.peek(cost).outcome).toBe(Outcome.over);
        bucket.clock.advanceUs(1);
        expect(bucket.peek(cost).outcome).toBe(Outcome.room);
      }),
      { numRuns: runs(100) },
    );
  },
);

function freshOf(limit: LimitNumbers): History {
  return { startUs: 0, limits: [limit], steps: [] };
}

function exampleOf(text: string): { text: string; numerator: bigint; denominator: bigint } {
  const [whole = "", decimals = ""] = text.split(".");
  return { text, numerator: BigInt(whole + decimals), denominator: 10n ** BigInt(decimals.length) };
}

function gcd(a: bigint, b: bigint): bigint {
  return b === 0n ? a : gcd(b, a % b);
}
