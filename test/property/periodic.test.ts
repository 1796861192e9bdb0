// The bound that periodic exchange promises, over any calls of several processes.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Sync } from "../../src/core/limit.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";
import { excessOver, openMembers, PERIOD_MS, play, schedules, sumsByWindow, WINDOWS } from "./several-processes.ts";

const MEMBERS = 3;
const PERIOD_US = PERIOD_MS * 1_000;
/** Answers that are late make a period longer, which the bound does not speak of. */
const prompt = (calls: ReturnType<typeof schedules>) => calls.map((list) => list.map((c) => ({ ...c, isSlow: false })));

describe("periodic exchange of several processes", () => {
  test("grants at most (N - 1) x (burst + rate x period) more than a token bucket", () => {
    let asked = 0;
    let granted = 0;
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 1, max: 3 }),
        prompt(schedules(MEMBERS, 6)),
        (amount, bursts, calls) => {
          const clock = new ManualClock();
          const burst = amount * bursts;
          const limit = makeLimit({ amount, burst, sync: Sync.periodic });
          const members = openMembers(MEMBERS, clock);
          const grants = play(members, clock, limit, calls);
          asked += members.reduce((sum, { line }) => sum + line.asked, 0);
          granted += grants.length;
          const perUs = amount / 1_000_000;
          const over = (MEMBERS - 1) * (burst + perUs * PERIOD_US);
          expect(excessOver(grants, (us) => burst + perUs * us + over)).toBeLessThanOrEqual(1e-6);
        },
      ),
      { numRuns: runs(300) },
    );
    expect(asked).toBeLessThan(granted);
  });

  test.each(WINDOWS)("grants at most N times the limit in an aligned window (algorithm %i)", (algorithm) => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60 }), prompt(schedules(MEMBERS, 6)), (amount, calls) => {
        const clock = new ManualClock();
        const limit = makeLimit({ algorithm, amount, sync: Sync.periodic });
        const grants = play(openMembers(MEMBERS, clock), clock, limit, calls);
        expect(Math.max(0, ...sumsByWindow(grants, limit))).toBeLessThanOrEqual(MEMBERS * amount);
      }),
      { numRuns: runs(30) },
    );
  });
});
