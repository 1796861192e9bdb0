// Whatever is paid, and given back at once or long after others came: what stands never exceeds what the limit allows.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ALGORITHM_NAMES, ALGORITHMS, Algorithm } from "../../src/engine/domain/limit.ts";
import { TakeGroup } from "../../src/engine/domain/take.ts";
import { fillGroup, takeOf } from "../contract/store-harness.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";
import { type LimitNumbers, limitNumbers, limitOf } from "./histories.ts";
import { bucketNumbers } from "./rates.ts";
import { ReferenceStore } from "./reference-store.ts";

interface Payment {
  readonly atUs: number;
  readonly cost: number;
  readonly group: TakeGroup;
  isGivenBack: boolean;
}

const CALLS = fc.array(
  fc.record({
    part: fc.integer({ min: 0, max: 300 }),
    costPart: fc.integer({ min: 1, max: 100 }),
    /** Which of the payments that stand is given back first, counted from the newest; none above 3. */
    givesBack: fc.integer({ min: 0, max: 7 }),
  }),
  { minLength: 2, maxLength: 50 },
);

function play(numbers: LimitNumbers, calls: typeof CALLS extends fc.Arbitrary<infer T> ? T : never): Payment[] {
  const clock = new ManualClock();
  const store = new ReferenceStore(clock);
  const limit = limitOf(numbers);
  const fillUs = Math.min(1e13, (numbers.burst * numbers.windowSeconds * 1_000_000) / Math.max(1, numbers.amount));
  const payments: Payment[] = [];
  for (const { part, costPart, givesBack } of calls) {
    clock.advanceUs(Math.floor((fillUs * part) / 1_000));
    const returned = payments.filter(({ isGivenBack }) => !isGivenBack).at(-1 - givesBack);
    if (givesBack <= 3 && returned !== undefined) {
      store.giveBack(returned.group);
      returned.isGivenBack = true;
    }
    const cost = Math.max(1, Math.floor((numbers.burst * costPart) / 100));
    const group = new TakeGroup();
    fillGroup(group, [{ limit, cost }], "", false);
    store.take(group);
    if (takeOf(group, 0).paid) payments.push({ atUs: clock.nowUs(), cost, group, isGivenBack: false });
  }
  return payments;
}

function exceeds(numbers: LimitNumbers, stood: readonly Payment[]): boolean {
  const windowUs = numbers.windowSeconds * 1_000_000;
  return stood.some((first, from) => {
    let sum = 0n;
    return stood.slice(from).some(({ atUs, cost }) => {
      sum += BigInt(cost);
      if (numbers.algorithm === Algorithm.tokenBucket) {
        const bound = BigInt(numbers.burst) * BigInt(windowUs) + BigInt(numbers.amount) * BigInt(atUs - first.atUs);
        return sum * BigInt(windowUs) > bound;
      }
      const isWithinWindow = atUs - first.atUs < windowUs;
      if (numbers.algorithm === Algorithm.slidingLog) return isWithinWindow && sum > BigInt(numbers.amount);
      const isAligned = Math.floor(atUs / windowUs) === Math.floor(first.atUs / windowUs);
      return (isAligned && sum > BigInt(numbers.amount)) || (isWithinWindow && sum > 2n * BigInt(numbers.amount));
    });
  });
}

describe("payments, given back or not,", () => {
  // Promise(limits): No algorithm grants more than its kind allows, over any history.
  // Promise(limits): Give-backs never let more pass than the limit's bound, however late they come.
  test.each(ALGORITHMS.map((algorithm) => ({ algorithm, name: ALGORITHM_NAMES[algorithm] })))(
    "let no more pass than the limit's bound, however late: $name",
    ({ algorithm }) => {
      const numbers =
        algorithm === Algorithm.tokenBucket
          ? fc.oneof(bucketNumbers(), limitNumbers([algorithm], 1))
          : limitNumbers([algorithm], 1);
      fc.assert(
        fc.property(numbers, CALLS, (limit, calls) => {
          expect(
            exceeds(
              limit,
              play(limit, calls).filter(({ isGivenBack }) => !isGivenBack),
            ),
          ).toBe(false);
        }),
        { numRuns: runs(600) },
      );
    },
  );
});
