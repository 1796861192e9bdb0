// The bounds that shares promise: together no more than the limit, or one each if there are more processes than that; and
// how much more while processes come and go and the data of the store is lost.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Algorithm, Sync } from "../../src/engine/domain/limit.ts";
import { makeLimit } from "../support/builders.ts";
import { runs } from "../support/runs.ts";
import { calling, changing, weathers } from "../support/schedules.ts";
import { Fleet, mostBeyondRate, SETTLE_US, type Step } from "../support/simulated-fleet.ts";
import { boundedLimits } from "./bounded-limits.ts";

/** Until then processes ask the store. */
const known: Step = { does: "waits", us: SETTLE_US };
const processes = fc.integer({ min: 1, max: 5 });
/** Each process cuts windows by its own clock. */
const calm = weathers.map((weather) => ({ ...weather, skewUs: 0, lossOneIn: 0 }));
/** Who is never heard of for ten seconds is taken as gone: that is for another test. */
const rough = weathers.map((weather) => ({
  ...weather,
  skewUs: 0,
  lossOneIn: weather.lossOneIn === 0 ? 0 : Math.max(5, weather.lossOneIn),
}));

const rows = boundedLimits(
  { sync: Sync.share, amounts: fc.integer({ min: 0, max: 60 }), bursts: [1, 2, 3] },
  {
    [Algorithm.tokenBucket]: "max(burst, N) + max(rate, N) x t in any time t",
    [Algorithm.fixedWindow]: "max(limit, N)",
    [Algorithm.calendarWindow]: "max(limit, N)",
    [Algorithm.slidingWindow]: "max(limit, N) in each aligned window",
    [Algorithm.slidingLog]: "max(limit, N) in any window",
  },
);
/** What `count` processes have together of an amount: one each, if there are more of them. */
const partly = (whole: number, count: number) => (whole === 0 ? 0 : Math.max(whole, count));

describe("shares of several processes", () => {
  // Promise(hot): Shares grant at most max(limit, N), even if the list of processes is lost again and again.
  test.each(rows)("grant at most, and ask nobody, of a $name", ({ limits, passed }) => {
    fc.assert(
      fc.property(limits, processes, calm, calling(4), (limit, count, weather, steps) => {
        const fleet = new Fleet(limit, count, weather).play([known, ...steps]);
        const rate = partly(limit.amount, count);
        expect(passed(fleet, limit, rate)).toBeLessThanOrEqual(partly(limit.burst, count) + 1e-6);
        expect(fleet.asked).toBe(0);
      }),
      { numRuns: runs(25) },
    );
  });

  // Promise(hot): While processes come and go, shares grant at most twice max(limit, N) and a share for each process.
  test.each(rows)("grant twice that while processes come and go, and a part for each, of a $name", (bound) => {
    const steps = changing(["losesRegister", "losesBuckets"]);
    fc.assert(
      fc.property(bound.limits, processes, rough, steps, (limit, count, weather, list) => {
        const fleet = new Fleet(limit, count, weather).play([known, ...list]);
        const [rate, whole] = [limit.amount, limit.burst].map((one) => partly(one, fleet.processes.length)) as [
          number,
          number,
        ];
        // What the store grants to those that are not counted yet, once more when it loses its data, and what each that
        // comes has for itself and each that goes leaves to the others.
        const atMost = 2 * whole + fleet.losses * whole + fleet.changes * (whole / 2);
        expect(bound.passed(fleet, limit, 2 * rate)).toBeLessThanOrEqual(atMost + 1e-6);
      }),
      { numRuns: runs(20) },
    );
  });

  // Promise(hot): Shares grant at most max(limit, N), even if the list of processes is lost again and again.
  test("grant no more because the list of processes is lost, again and again", () => {
    const lost: Step[] = Array.from({ length: 30 }, () => [
      { does: "losesRegister" } as const,
      { does: "works", us: 700_000, everyUs: 20_000 } as const,
    ]).flat();
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 5 }), calm, (count, weather) => {
        const limit = makeLimit({ amount: 20, burst: 20, sync: Sync.share });
        const fleet = new Fleet(limit, count, weather).play([known, ...lost]);
        expect(mostBeyondRate(fleet.grants, 20)).toBeLessThanOrEqual(20 + 1e-6);
      }),
      { numRuns: runs(4) },
    );
  });

  test("grant the whole limit together when all processes are busy", () => {
    const limit = makeLimit({ amount: 20, windowSeconds: 86_400, sync: Sync.share });
    const weather = { seed: 1, delayUsMax: 0, lossOneIn: 0, deadlineUs: 15_000, skewUs: 0 };
    const all = [0, 1, 2].map((process) => ({ does: "calls", process, times: 30, cost: 1 }) as const);
    expect(new Fleet(limit, 3, weather).play([known, ...all]).grants).toHaveLength(20);
  });
});
