// Sliding logs of up to a thousand payments, against the list of every payment there was.

import fc from "fast-check";
import { expect, test } from "vitest";
import { Algorithm, LOG_PAYMENTS_MAX } from "../../src/engine/domain/limit.ts";
import { runs } from "../support/runs.ts";
import { SingleBucket } from "./single-bucket.ts";

interface Grant {
  readonly atUs: number;
  readonly cost: number;
}

// Promise(limits): A sliding log is exact: it refuses only what would pass its limit in the last window.
test("a log refuses only what would pass its limit in the last window, and frees each payment when it is a window old", () => {
  const call = fc.record({ part: fc.integer({ min: 0, max: 40 }), cost: fc.constantFrom(1, 1, 1, 2, 40) });
  const calls = fc.array(call, { minLength: 200, maxLength: 1_500 });
  const windows = fc.constantFrom(1, 7, 60, 3_600);
  const amounts = fc.integer({ min: 100, max: LOG_PAYMENTS_MAX });
  fc.assert(
    fc.property(windows, amounts, calls, (windowSeconds, amount, calls) => {
      const windowUs = windowSeconds * 1_000_000;
      const numbers = { algorithm: Algorithm.slidingLog, amount, burst: amount, windowSeconds, debtMax: amount };
      const bucket = new SingleBucket({ startUs: 0, limits: [numbers], steps: [] });
      let grants: Grant[] = [];
      for (const { part, cost } of calls) {
        bucket.clock.advanceUs(Math.floor((windowUs * part) / 20_000));
        const nowUs = bucket.clock.nowUs();
        grants = grants.filter(({ atUs }) => atUs > nowUs - windowUs);
        const excess = grants.reduce((sum, grant) => sum + grant.cost, cost - amount);
        const { paid, waitUs } = bucket.pay(cost);
        expect(paid).toBe(excess <= 0);
        if (paid) grants.push({ atUs: nowUs, cost });
        else expect(waitUs).toBe(timeThatFrees(grants, excess) + windowUs - nowUs);
      }
    }),
    { numRuns: runs(60) },
  );
});

function timeThatFrees(grants: readonly Grant[], cost: number): number {
  let left = cost;
  for (const grant of grants) {
    left -= grant.cost;
    if (left <= 0) return grant.atUs;
  }
  return Number.NaN;
}
