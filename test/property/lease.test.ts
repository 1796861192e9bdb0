// The bound that leases promise, over any calls of several processes, with answers that come late.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Algorithm, Sync } from "../../src/core/limit.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";
import { ReferenceStore } from "./reference-store.ts";
import { excessOver, lookAt, openMembers, play, schedules, sumsByWindow } from "./several-processes.ts";

const MEMBERS = 3;

describe("leases of several processes", () => {
  test("grant at most 1.25 x burst + rate x t of a token bucket, in any time t", () => {
    let asked = 0;
    let granted = 0;
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100 }),
        fc.integer({ min: 1, max: 3 }),
        schedules(MEMBERS, 6),
        (amount, bursts, calls) => {
          const clock = new ManualClock();
          const burst = amount * bursts;
          const limit = makeLimit({ amount, burst, sync: Sync.lease });
          const members = openMembers(MEMBERS, clock);
          const grants = play(members, clock, limit, calls);
          asked += members.reduce((sum, { line }) => sum + line.asked, 0);
          granted += grants.length;
          expect(excessOver(grants, (us) => 1.25 * burst + (amount * us) / 1_000_000)).toBeLessThanOrEqual(0);
        },
      ),
      { numRuns: runs(300) },
    );
    // Leases were used: far fewer questions than grants.
    expect(asked).toBeLessThan(granted * 0.85);
  });

  test("grant at most the limit in an aligned fixed window", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 200 }), schedules(MEMBERS, 6), (amount, calls) => {
        const clock = new ManualClock();
        const limit = makeLimit({ algorithm: Algorithm.fixedWindow, amount, sync: Sync.lease });
        const grants = play(openMembers(MEMBERS, clock), clock, limit, calls);
        expect(Math.max(0, ...sumsByWindow(grants, limit))).toBeLessThanOrEqual(amount);
      }),
      { numRuns: runs(300) },
    );
  });

  test("leave the bucket as if only what was granted had been paid, once they are given back, less what returned meanwhile", () => {
    fc.assert(
      fc.property(schedules(MEMBERS, 6), (calls) => {
        const clock = new ManualClock();
        const shared = new ReferenceStore(clock);
        const limit = makeLimit({ amount: 1_000, burst: 1_000, windowSeconds: 86_400, sync: Sync.lease });
        const grants = play(openMembers(MEMBERS, clock, shared), clock, limit, calls);
        const spent = grants.reduce((sum, { cost }) => sum + cost, 0);
        const { remaining } = lookAt(shared, limit);
        const refilled = Math.ceil(((clock.nowUs() - Date.UTC(2026, 0, 1) * 1_000) / 86_400_000_000) * 1_000);
        // What returns while a lease is held is not given back with it: without the lease the bucket may have been full.
        expect(remaining).toBeGreaterThanOrEqual(1_000 - spent - MEMBERS * refilled);
        expect(remaining).toBeLessThanOrEqual(1_000 - spent + refilled);
      }),
      { numRuns: runs(300) },
    );
  });
});
