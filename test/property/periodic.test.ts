// The bounds that periodic exchange promises: over any calls of several processes, whatever the way to the store does with
// their messages, however rules are read anew, and while processes come and go.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Algorithm, type Limit, Sync } from "../../src/engine/domain/limit.ts";
import { runs } from "../support/runs.ts";
import { calling, changing, weathers } from "../support/schedules.ts";
import { Fleet, PERIOD_MS } from "../support/simulated-fleet.ts";
import { boundedLimits } from "./bounded-limits.ts";

const processes = fc.integer({ min: 1, max: 4 });
const rows = boundedLimits(
  { sync: Sync.periodic, amounts: fc.integer({ min: 1, max: 60 }), bursts: [0.1, 1, 3] },
  {
    [Algorithm.tokenBucket]: "burst + rate x t + N x (burst + rate x two periods) in any time t",
    [Algorithm.fixedWindow]: "N times the limit",
    [Algorithm.calendarWindow]: "N times the limit",
    [Algorithm.slidingWindow]: "N times the limit in each aligned window",
    [Algorithm.slidingLog]: "N times the limit in any window",
  },
);

/** The most that `count` processes may let pass of a limit. */
function mostOf({ algorithm, amount, burst }: Limit, count: number): number {
  if (algorithm !== Algorithm.tokenBucket) return count * amount;
  return burst + count * (burst + (amount * 2 * PERIOD_MS) / 1_000);
}

describe("periodic exchange of several processes", () => {
  // Promise(hot): Periodic exchange grants at most N x (burst + rate x two periods) more, or N times a window's limit.
  test.each(rows)("grants at most, of a $name", ({ limits, passed }) => {
    const seen = { granted: 0, inMemory: 0 };
    fc.assert(
      fc.property(limits, processes, weathers, calling(6), (limit, count, weather, steps) => {
        const fleet = new Fleet(limit, count, weather).play(steps);
        seen.granted += fleet.grants.length;
        seen.inMemory += fleet.grantedInMemory;
        expect(passed(fleet, limit)).toBeLessThanOrEqual(mostOf(limit, count) + 1e-6);
      }),
      { numRuns: runs(60) },
    );
    expect(seen.inMemory).toBeGreaterThan(seen.granted / 20);
  });

  // Promise(hot): With one process, periodic exchange grants no more than the limit.
  test.each(rows)("grants no more of one process than the limit, whatever is late or lost, of a $name", (bound) => {
    fc.assert(
      fc.property(bound.limits, weathers, calling(6), (limit, weather, steps) => {
        const fleet = new Fleet(limit, 1, weather).play(steps);
        expect(bound.passed(fleet, limit)).toBeLessThanOrEqual(limit.burst + 1e-6);
      }),
      { numRuns: runs(40) },
    );
  });

  // Promise(hot): The N of periodic exchange is the number of processes that there were, while they come, go and pause.
  test.each(rows)("counts each process that came while others come, go and stand still, of a $name", (bound) => {
    fc.assert(
      fc.property(bound.limits, processes, weathers, changing(["losesRegister"]), (limit, count, weather, steps) => {
        const fleet = new Fleet(limit, count, weather).play(steps);
        expect(bound.passed(fleet, limit)).toBeLessThanOrEqual(mostOf(limit, fleet.processes.length) + 1e-6);
      }),
      { numRuns: runs(15) },
    );
  });
});
