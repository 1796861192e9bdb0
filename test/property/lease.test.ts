// The bounds that leases promise: over any calls of several processes, whatever the way to the store does with their
// messages, and while processes come and go and the data of the store is lost.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Algorithm, type Limit, Sync } from "../../src/engine/domain/limit.ts";
import { makeLimit } from "../support/builders.ts";
import { runs } from "../support/runs.ts";
import { calling, changing, weathers } from "../support/schedules.ts";
import {
  Fleet,
  leftOf,
  mostBeyondRate,
  mostInAlignedWindow,
  mostInAnyWindow,
  SETTLE_US,
  type Step,
} from "../support/simulated-fleet.ts";

/** Until then nobody leases. */
const known: Step = { does: "waits", us: SETTLE_US };
const processes = fc.integer({ min: 1, max: 4 });

interface Row {
  readonly name: string;
  readonly algorithm: Algorithm;
  /** The most that passed in any time beyond the rate, or in the windows that the algorithm promises for. */
  readonly passed: (fleet: Fleet, limit: Limit) => number;
  /** How much may pass, times what the limit holds. */
  readonly times: number;
}

const inAlignedWindow: Row["passed"] = ({ grants }, limit) => mostInAlignedWindow(grants, limit);
const rows: readonly Row[] = [
  {
    name: "token bucket: 1.25 x burst + rate x t in any time t",
    algorithm: Algorithm.tokenBucket,
    passed: ({ grants }, { amount }) => mostBeyondRate(grants, amount),
    times: 1.25,
  },
  { name: "fixed window: its limit", algorithm: Algorithm.fixedWindow, passed: inAlignedWindow, times: 1 },
  { name: "calendar window: its limit", algorithm: Algorithm.calendarWindow, passed: inAlignedWindow, times: 1 },
  {
    name: "sliding window: 1.25 x limit in each aligned window",
    algorithm: Algorithm.slidingWindow,
    passed: inAlignedWindow,
    times: 1.25,
  },
  {
    name: "sliding log: 1.25 x limit in any window",
    algorithm: Algorithm.slidingLog,
    passed: ({ grants }, limit) => mostInAnyWindow(grants, limit),
    times: 1.25,
  },
];

function limitsOf({ algorithm }: Row): fc.Arbitrary<Limit> {
  const bursts = algorithm === Algorithm.tokenBucket ? fc.constantFrom(0.1, 1, 3) : fc.constant(1);
  return fc
    .tuple(fc.integer({ min: 1, max: 300 }), bursts)
    .map(([amount, times]) => makeLimit({ algorithm, amount, burst: Math.ceil(amount * times), sync: Sync.lease }));
}

function expectWithin({ passed, times }: Row, fleet: Fleet, limit: Limit, losses: number): void {
  expect(passed(fleet, limit)).toBeLessThanOrEqual((times + losses) * limit.burst + 1e-6);
}

describe("leases of several processes", () => {
  // Promise(hot): Leases grant at most 1.25 x burst + rate x t, a fixed window's limit, or 1.25 x another window's, whatever is lost.
  test.each(rows)("grant at most, of a $name", (row) => {
    const seen = { granted: 0, inMemory: 0 };
    fc.assert(
      fc.property(limitsOf(row), processes, weathers, calling(6), (limit, count, weather, steps) => {
        const fleet = new Fleet(limit, count, weather).play([known, ...steps]);
        seen.granted += fleet.grants.length;
        seen.inMemory += fleet.grantedInMemory;
        expectWithin(row, fleet, limit, 0);
      }),
      { numRuns: runs(60) },
    );
    expect(seen.inMemory).toBeGreaterThan(seen.granted / 20);
  });

  // Promise(hot): Leases keep their bound while processes join, leave, die and pause, and the list of processes is lost.
  // Promise(hot): Each time its data is lost, a leased bucket grants once more what it holds.
  test.each(rows)(
    "grant no more while processes come and go and data is lost, but once more for each loss, of a $name",
    (row) => {
      const steps = fc.oneof(
        { weight: 5, arbitrary: changing(["losesRegister"]) },
        { weight: 2, arbitrary: changing(["losesRegister", "losesBuckets"]) },
      );
      fc.assert(
        fc.property(limitsOf(row), processes, weathers, steps, (limit, count, weather, list) => {
          const fleet = new Fleet(limit, count, weather).play([known, ...list]);
          expectWithin(row, fleet, limit, fleet.losses);
        }),
        { numRuns: runs(35) },
      );
    },
  );

  test("leave the bucket as if only what was granted had been paid, once they are given back", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...Object.values(Algorithm)),
        processes,
        weathers,
        calling(6),
        (algorithm, count, weather, steps) => {
          const day = 86_400;
          const limit = makeLimit({ algorithm, amount: 1_000, burst: 1_000, windowSeconds: day, sync: Sync.lease });
          const fleet = new Fleet(limit, count, { ...weather, lossOneIn: 0, skewUs: 0 }).play([known, ...steps]);
          const spent = fleet.grants.reduce((sum, { cost }) => sum + cost, 0);
          const refilled = Math.ceil((fleet.lastedUs / (day * 1_000_000)) * 1_000);
          const left = leftOf(fleet, limit);
          // What came back to a token bucket had refilled a little meanwhile, and that is not given twice.
          expect(left).toBeGreaterThanOrEqual(1_000 - spent - 1);
          expect(left).toBeLessThanOrEqual(1_000 - spent + refilled);
        },
      ),
      { numRuns: runs(25) },
    );
  });
});
