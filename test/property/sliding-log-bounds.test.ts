// Sliding logs of many payments, against the list of every payment there was.

import fc from "fast-check";
import { expect, test } from "vitest";
import { LOG_GRANULES } from "../../src/algorithms/log-granules.ts";
import { Algorithm } from "../../src/core/limit.ts";
import { runs } from "../support/runs.ts";
import { SingleBucket } from "./single-bucket.ts";

// Promise(limits): A sliding log refuses for at most a granule longer than its window.
test("a full log grants at most its limit in any rolling window, and counts nothing for a granule longer than that", () => {
  const call = fc.record({ part: fc.integer({ min: 1, max: 400 }), cost: fc.integer({ min: 1, max: 40 }) });
  const calls = fc.array(call, { minLength: 200, maxLength: 900 });
  const windows = fc.constantFrom(1, 7, 60, 3_600);
  fc.assert(
    fc.property(windows, fc.integer({ min: 100, max: 10_000 }), calls, (windowSeconds, amount, calls) => {
      const windowUs = windowSeconds * 1_000_000;
      const granuleUs = Math.ceil(windowUs / LOG_GRANULES);
      const numbers = { algorithm: Algorithm.slidingLog, amount, burst: amount, windowSeconds, debtMax: amount };
      const bucket = new SingleBucket({ startUs: 0, limits: [numbers], steps: [] });
      let grants: { atUs: number; cost: number }[] = [];
      for (const { part, cost } of calls) {
        bucket.clock.advanceUs(Math.floor((windowUs * part) / 40_000));
        const nowUs = bucket.clock.nowUs();
        grants = grants.filter(({ atUs }) => atUs > nowUs - windowUs - granuleUs);
        const since = (us: number) =>
          grants.reduce((sum, grant) => sum + (grant.atUs > nowUs - us ? grant.cost : 0), 0);
        const { paid, waitUs } = bucket.pay(cost);
        if (paid) expect(since(windowUs) + cost).toBeLessThanOrEqual(amount);
        else expect(since(windowUs + granuleUs) + cost).toBeGreaterThan(amount);
        if (paid) grants.push({ atUs: nowUs, cost });
        else expect(waitUs).toBeLessThanOrEqual(windowUs);
      }
    }),
    { numRuns: runs(60) },
  );
});
