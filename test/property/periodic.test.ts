// The bounds that periodic exchange promises: over any calls of several processes, whatever the way to the store does with
// their messages, however rules are read anew, and while processes come and go.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Algorithm, type Limit, Sync } from "../../src/engine/domain/limit.ts";
import { makeLimit } from "../support/builders.ts";
import { runs } from "../support/runs.ts";
import { calling, changing, weathers } from "../support/schedules.ts";
import { Fleet, mostBeyondRate, mostInAlignedWindow, mostInAnyWindow, PERIOD_MS } from "../support/simulated-fleet.ts";

const processes = fc.integer({ min: 1, max: 4 });
const window = (algorithm: Algorithm) =>
  fc.integer({ min: 1, max: 60 }).map((amount) => makeLimit({ algorithm, amount, sync: Sync.periodic }));

/** The most that `count` processes may let pass of a limit, and what they did. */
interface Bound {
  readonly name: string;
  readonly limits: fc.Arbitrary<Limit>;
  readonly passed: (fleet: Fleet, limit: Limit) => number;
  readonly atMost: (limit: Limit, count: number) => number;
}
const bounds: Bound[] = [
  {
    name: "token bucket: burst + rate x t + N x (burst + rate x two periods) in any time t",
    limits: fc
      .tuple(fc.integer({ min: 1, max: 60 }), fc.constantFrom(0.1, 1, 3))
      .map(([amount, bursts]) => makeLimit({ amount, burst: Math.ceil(amount * bursts), sync: Sync.periodic })),
    passed: ({ grants }, { amount }) => mostBeyondRate(grants, amount),
    atMost: ({ burst, amount }, count) => burst + count * (burst + (amount * 2 * PERIOD_MS) / 1_000),
  },
  {
    name: "fixed window: N times the limit",
    limits: window(Algorithm.fixedWindow),
    passed: ({ grants }, limit) => mostInAlignedWindow(grants, limit),
    atMost: ({ amount }, count) => count * amount,
  },
  {
    name: "calendar window: N times the limit",
    limits: window(Algorithm.calendarWindow),
    passed: ({ grants }, limit) => mostInAlignedWindow(grants, limit),
    atMost: ({ amount }, count) => count * amount,
  },
  {
    name: "sliding window: N times the limit in each aligned window",
    limits: window(Algorithm.slidingWindow),
    passed: ({ grants }, limit) => mostInAlignedWindow(grants, limit),
    atMost: ({ amount }, count) => count * amount,
  },
  {
    name: "sliding log: N times the limit in any window",
    limits: window(Algorithm.slidingLog),
    passed: ({ grants }, limit) => mostInAnyWindow(grants, limit),
    atMost: ({ amount }, count) => count * amount,
  },
];

describe("periodic exchange of several processes", () => {
  // Promise(hot): Periodic exchange grants at most N x (burst + rate x two periods) more, or N times a window's limit.
  test.each(bounds)("grants at most, of a $name", ({ limits, passed, atMost }) => {
    const seen = { granted: 0, inMemory: 0 };
    fc.assert(
      fc.property(limits, processes, weathers, calling(6), (limit, count, weather, steps) => {
        const fleet = new Fleet(limit, count, weather).play(steps);
        seen.granted += fleet.grants.length;
        seen.inMemory += fleet.grantedInMemory;
        expect(passed(fleet, limit)).toBeLessThanOrEqual(atMost(limit, count) + 1e-6);
      }),
      { numRuns: runs(60) },
    );
    expect(seen.inMemory).toBeGreaterThan(seen.granted / 20);
  });

  // Promise(hot): With one process, periodic exchange grants no more than the limit.
  test.each(bounds)("grants no more of one process than the limit, whatever is late or lost, of a $name", (bound) => {
    fc.assert(
      fc.property(bound.limits, weathers, calling(6), (limit, weather, steps) => {
        const fleet = new Fleet(limit, 1, weather).play(steps);
        const own = bound.name.startsWith("token") ? limit.burst : limit.amount;
        expect(bound.passed(fleet, limit)).toBeLessThanOrEqual(own + 1e-6);
      }),
      { numRuns: runs(40) },
    );
  });

  // Promise(hot): The N of periodic exchange is the number of processes that there were, while they come, go and pause.
  test.each(bounds)("counts each process that came while others come, go and stand still, of a $name", (bound) => {
    fc.assert(
      fc.property(bound.limits, processes, weathers, changing(["losesRegister"]), (limit, count, weather, steps) => {
        const fleet = new Fleet(limit, count, weather).play(steps);
        const atMost = bound.atMost(limit, fleet.processes.length);
        expect(bound.passed(fleet, limit)).toBeLessThanOrEqual(atMost + 1e-6);
      }),
      { numRuns: runs(15) },
    );
  });
});
