// What holds for every limit and every history, one bucket at a time.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Keyed } from "../../src/engine/domain/key-bytes.ts";
import { ALGORITHM_NAMES, ALGORITHMS, Algorithm, WAIT_US_MAX } from "../../src/engine/domain/limit.ts";
import { Outcome, type Take } from "../../src/engine/domain/take.ts";
import { runs } from "../support/runs.ts";
import { modelOf } from "./exact-models.ts";
import { type History, type HistoryShape, histories } from "./histories.ts";
import { replayOnReference } from "./replay.ts";
import { REPLAYED_HISTORIES } from "./replayed.ts";
import { SingleBucket } from "./single-bucket.ts";

const RUNS = { numRuns: runs(150) };
const GOES_BACK_FAR = 400_000_000;

/** A take's question and answer, without the key that it was asked under. */
function answerOf(take: Take): Omit<Take, keyof Keyed> {
  const { keys: _, keyAt: _at, keyLength: _length, keyHash: _hash, ...rest } = take;
  const { keyHash1: _hash1, keyHash2: _hash2, keyHash3: _hash3, ...answer } = rest;
  return answer;
}

describe.each(ALGORITHMS.map((algorithm) => ({ algorithm, name: ALGORITHM_NAMES[algorithm] })))(
  "$name",
  ({ algorithm }) => {
    const anyHistory = (shape: HistoryShape = {}) => histories({ algorithms: [algorithm], ...shape });
    const hold = (history: fc.Arbitrary<History>, check: (history: History) => void) =>
      fc.assert(fc.property(history, check), {
        ...RUNS,
        examples: REPLAYED_HISTORIES.filter(({ limits }) => limits[0]?.algorithm === algorithm).map((known) => [known]),
      });

    // Promise(limits): A sliding window counts the current window and the overlapping share of the previous one.
    // Promise(limits): A fixed window restarts at each clock-aligned start.
    // Promise(limits): A sliding log keeps its limit in any stretch of its window.
    test("answers as the exact model does", () => {
      hold(anyHistory(), (history) => {
        const [numbers] = history.limits;
        const model = numbers === undefined ? undefined : modelOf(numbers);
        let nowUs = history.startUs;
        const expected = history.steps.map(({ advanceUs, takes: [take] }) => {
          nowUs += advanceUs;
          return take === undefined ? undefined : model?.take(nowUs, take.cost, take.mode);
        });
        const answers = replayOnReference(history).map(({ takes: [take] }) => ({
          outcome: take?.outcome,
          remaining: take?.remaining,
        }));
        expect(answers).toEqual(expected);
      });
    });

    // Promise(answers): A refused cost passes after the wait that it was told, and not a microsecond earlier.
    test("after the wait the same cost passes, and a microsecond earlier it does not", () => {
      const cost = fc.integer({ min: 1, max: 1_000_000 });
      fc.assert(
        fc.property(anyHistory({ amountMin: 1 }), cost, (history, costSeed) => {
          const bucket = new SingleBucket(history);
          const asked = 1 + (costSeed % bucket.limit.burst);
          const { waitUs, outcome } = bucket.peek(asked);
          expect(outcome).not.toBe(Outcome.never);
          expect(waitUs > 0).toBe(outcome === Outcome.over);
          fc.pre(waitUs < WAIT_US_MAX);
          bucket.clock.advanceUs(Math.max(0, waitUs - 1));
          expect(bucket.peek(asked).outcome).toBe(outcome);
          bucket.clock.advanceUs(waitUs > 0 ? 1 : 0);
          expect(bucket.peek(asked).outcome).toBe(Outcome.room);
        }),
        RUNS,
      );
    });

    test("a refusal and a peek change nothing", () => {
      hold(anyHistory(), (history) => {
        const answers = replayOnReference(history);
        const isIdle = (index: number) => answers[index]?.takes.every(({ paid }) => !paid) === true;
        let skippedUs = 0;
        const steps = history.steps.flatMap((step, index) => {
          const advanceUs = step.advanceUs + skippedUs;
          skippedUs = isIdle(index) ? advanceUs : 0;
          return isIdle(index) ? [] : [{ ...step, advanceUs }];
        });
        expect(replayOnReference({ ...history, steps })).toEqual(answers.filter((_, index) => !isIdle(index)));
      });
    });

    test("an idle bucket equals a new one", () => {
      const both = fc.tuple(
        anyHistory({ amountMin: 1, stepsMax: 10 }),
        fc.array(fc.nat({ max: 20 }), { maxLength: 6 }),
      );
      fc.assert(
        fc.property(both, ([history, costs]) => {
          const bucket = new SingleBucket(history);
          const { resetUs } = bucket.peek();
          fc.pre(resetUs < WAIT_US_MAX);
          bucket.clock.advanceUs(resetUs);
          for (const cost of costs) {
            const idle = bucket.pay(cost + 1);
            const fresh = bucket.pay(cost + 1, "new");
            expect(answerOf(idle)).toEqual(answerOf(fresh));
            bucket.clock.advanceUs(bucket.limit.windowSeconds * 1_234);
          }
        }),
        RUNS,
      );
    });

    // Promise(limits): A clock that steps back grants nothing; only a sliding window may grant, after a large step.
    test("a step back in time grants nothing, of a sliding window one of up to ten seconds", () => {
      const stepMaxUs = algorithm === Algorithm.slidingWindow ? 10_000_000 : GOES_BACK_FAR;
      fc.assert(
        fc.property(anyHistory(), fc.nat({ max: stepMaxUs }), (history, stepUs) => {
          const bucket = new SingleBucket(history);
          const before = bucket.peek().remaining;
          const windowUs = bucket.limit.windowSeconds * 1_000_000;
          bucket.clock.advanceUs(0 - (algorithm === Algorithm.slidingWindow ? Math.min(stepUs, windowUs) : stepUs));
          expect(bucket.peek().remaining).toBeLessThanOrEqual(before);
        }),
        RUNS,
      );
    });

    test("a bucket never stands still for longer than its reset, however far time steps back", () => {
      fc.assert(
        fc.property(anyHistory({ amountMin: 1 }), fc.nat({ max: GOES_BACK_FAR }), (history, stepUs) => {
          const bucket = new SingleBucket(history);
          bucket.clock.advanceUs(0 - stepUs);
          const { resetUs } = bucket.pay(1);
          fc.pre(resetUs < WAIT_US_MAX);
          bucket.clock.advanceUs(resetUs);
          expect(bucket.peek()).toMatchObject({ remaining: bucket.limit.burst, resetUs: 0 });
        }),
        RUNS,
      );
    });
  },
);
