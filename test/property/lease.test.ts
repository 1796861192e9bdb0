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
const bucket = fc
  .tuple(fc.integer({ min: 1, max: 300 }), fc.constantFrom(0.1, 1, 3))
  .map(([amount, bursts]) => makeLimit({ amount, burst: Math.ceil(amount * bursts), sync: Sync.lease }));
const window = (algorithm: Algorithm) =>
  fc.integer({ min: 1, max: 300 }).map((amount) => makeLimit({ algorithm, amount, sync: Sync.lease }));

/** The most that a limit may let pass, and what it did. */
interface Bound {
  readonly name: string;
  readonly limits: fc.Arbitrary<Limit>;
  readonly passed: (fleet: Fleet, limit: Limit) => number;
  readonly atMost: (limit: Limit, losses: number) => number;
}
const bounds: Bound[] = [
  {
    name: "token bucket: 1.25 x burst + rate x t in any time t",
    limits: bucket,
    passed: ({ grants }, { amount }) => mostBeyondRate(grants, amount),
    atMost: ({ burst }, losses) => (1.25 + losses) * burst,
  },
  {
    name: "fixed window: the limit in each window",
    limits: window(Algorithm.fixedWindow),
    passed: ({ grants }, limit) => mostInAlignedWindow(grants, limit),
    atMost: ({ amount }, losses) => (1 + losses) * amount,
  },
  {
    name: "calendar window: the limit in each window",
    limits: window(Algorithm.calendarWindow),
    passed: ({ grants }, limit) => mostInAlignedWindow(grants, limit),
    atMost: ({ amount }, losses) => (1 + losses) * amount,
  },
  {
    name: "sliding window: 1.25 x limit in each aligned window",
    limits: window(Algorithm.slidingWindow),
    passed: ({ grants }, limit) => mostInAlignedWindow(grants, limit),
    atMost: ({ amount }, losses) => (1.25 + losses) * amount,
  },
  {
    name: "sliding log: 1.25 x limit in any window",
    limits: window(Algorithm.slidingLog),
    passed: ({ grants }, limit) => mostInAnyWindow(grants, limit),
    atMost: ({ amount }, losses) => (1.25 + losses) * amount,
  },
];

describe("leases of several processes", () => {
  // Promise(hot): Leases grant at most 1.25 x burst + rate x t, a fixed window's limit, or 1.25 x another window's, whatever is lost.
  test.each(bounds)("grant at most, of a $name", ({ limits, passed, atMost }) => {
    const seen = { granted: 0, inMemory: 0 };
    fc.assert(
      fc.property(limits, processes, weathers, calling(6), (limit, count, weather, steps) => {
        const fleet = new Fleet(limit, count, weather).play([known, ...steps]);
        seen.granted += fleet.grants.length;
        seen.inMemory += fleet.grantedInMemory;
        expect(passed(fleet, limit)).toBeLessThanOrEqual(atMost(limit, 0) + 1e-6);
      }),
      { numRuns: runs(60) },
    );
    expect(seen.inMemory).toBeGreaterThan(seen.granted / 20);
  });

  // Promise(hot): Leases keep their bound while processes join, leave, die and pause, and the list of processes is lost.
  test.each(bounds)("grant no more while processes come and go and the register is lost, of a $name", (bound) => {
    const steps = changing(["losesRegister"]);
    fc.assert(
      fc.property(bound.limits, processes, weathers, steps, (limit, count, weather, list) => {
        const fleet = new Fleet(limit, count, weather).play([known, ...list]);
        expect(bound.passed(fleet, limit)).toBeLessThanOrEqual(bound.atMost(limit, 0) + 1e-6);
      }),
      { numRuns: runs(25) },
    );
  });

  // Promise(hot): Each time its data is lost, a leased bucket grants once more what it holds.
  test.each(bounds)("grant once more what a bucket holds for each time its data is lost, of a $name", (bound) => {
    const steps = changing(["losesRegister", "losesBuckets"]);
    fc.assert(
      fc.property(bound.limits, processes, weathers, steps, (limit, count, weather, list) => {
        const fleet = new Fleet(limit, count, weather).play([known, ...list]);
        expect(bound.passed(fleet, limit)).toBeLessThanOrEqual(bound.atMost(limit, fleet.losses) + 1e-6);
      }),
      { numRuns: runs(10) },
    );
  });

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
