// Rates as people write them, and the token buckets that the compiler makes of them.

import fc from "fast-check";
import { AMOUNT_MAX } from "../../src/base/units.ts";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import { rateOfDecimal, reduceRate } from "../../src/engine/rules/limit-shape.ts";
import type { LimitNumbers } from "./histories.ts";

/** A decimal above 0 with up to seven digits behind the point, and the fraction it stands for. */
export interface Decimal {
  readonly text: string;
  readonly numerator: bigint;
  readonly denominator: bigint;
}

/** Decimals of all sizes, some of them those that once broke. */
export function decimals(): fc.Arbitrary<Decimal> {
  const digits = fc.nat({ max: 7 });
  const small = fc.tuple(fc.integer({ min: 1, max: 99_999_999 }), digits);
  const large = fc.tuple(fc.integer({ min: 1, max: AMOUNT_MAX * 2 }), digits);
  const known = fc.constantFrom<[number, number]>(
    [333_333_333, 7],
    [10_000_001, 7],
    [317, 7],
    [1_000_000_005, 1],
    [1, 7],
  );
  return fc.oneof({ weight: 4, arbitrary: small }, { weight: 2, arbitrary: large }, known).map(([number, places]) => {
    const padded = String(number).padStart(places + 1, "0");
    const text = places === 0 ? padded : `${padded.slice(0, -places)}.${padded.slice(-places)}`;
    return { text, numerator: BigInt(number), denominator: 10n ** BigInt(places) };
  });
}

/** The numbers of token buckets of such rates, and of requests per unit: small bursts, and the largest. */
export function bucketNumbers(): fc.Arbitrary<LimitNumbers> {
  const written = decimals().map(({ text }) => rateOfDecimal(text));
  const bursts = fc.oneof(
    fc.integer({ min: 1, max: 100 }),
    fc.integer({ min: 1, max: AMOUNT_MAX }),
    fc.constant(AMOUNT_MAX),
  );
  return fc
    .tuple(written, bursts)
    .filter(([rate, burst]) => typeof rate !== "string" && burst * rate.windowSeconds >= rate.amount)
    .map(([rate, burst]) => {
      if (typeof rate === "string") throw new RangeError(rate);
      const { amount, windowSeconds } = reduceRate(rate.amount, rate.windowSeconds);
      return { algorithm: Algorithm.tokenBucket, amount, burst, windowSeconds, debtMax: AMOUNT_MAX, keySeconds: 1 };
    });
}
