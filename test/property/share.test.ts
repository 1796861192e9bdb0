// The bound that shares promise: together no more than the limit, or one each if there are more processes than that.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Sync } from "../../src/core/limit.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";
import { excessOver, openMembers, play, schedules, sumsByWindow, WINDOWS } from "./several-processes.ts";

const members = fc.integer({ min: 1, max: 5 });
const arranged = members.chain((count) => fc.tuple(fc.constant(count), schedules(count, 4)));

describe("shares of several processes", () => {
  test("grant at most max(burst, N) + max(rate, N) x t of a token bucket, and ask nobody", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 30 }),
        fc.integer({ min: 1, max: 3 }),
        arranged,
        (amount, bursts, [count, calls]) => {
          const clock = new ManualClock();
          const burst = amount * bursts;
          const limit = makeLimit({ amount, burst, sync: Sync.share });
          const processes = openMembers(count, clock);
          const grants = play(processes, clock, limit, calls);
          const atMost = (share: number) => (share === 0 ? 0 : Math.max(share, count));
          expect(excessOver(grants, (us) => atMost(burst) + (atMost(amount) * us) / 1_000_000)).toBeLessThanOrEqual(
            1e-6,
          );
          expect(processes.map(({ line }) => line.asked)).toEqual(processes.map(() => 0));
        },
      ),
      { numRuns: runs(300) },
    );
  });

  test.each(WINDOWS)("grant at most max(limit, N) in an aligned window (algorithm %i)", (algorithm) => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 30 }), arranged, (amount, [count, calls]) => {
        const clock = new ManualClock();
        const limit = makeLimit({ algorithm, amount, sync: Sync.share });
        const grants = play(openMembers(count, clock), clock, limit, calls);
        expect(Math.max(0, ...sumsByWindow(grants, limit))).toBeLessThanOrEqual(Math.max(amount, count));
      }),
      { numRuns: runs(30) },
    );
  });

  test("grant the whole limit together when all processes are busy", () => {
    const clock = new ManualClock();
    const limit = makeLimit({ amount: 20, windowSeconds: 86_400, sync: Sync.share });
    const calls = Array.from({ length: 90 }, (_, i) => ({
      member: i % 3,
      advanceUs: 0,
      cost: 1,
      isSlow: false,
      isGivenBack: false,
    }));
    expect(play(openMembers(3, clock), clock, limit, calls)).toHaveLength(20);
  });
});
