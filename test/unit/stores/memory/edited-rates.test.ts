// How long the memory keeps a token bucket whose rate was edited: as long as what was spent means something.

import fc from "fast-check";
import { expect, test } from "vitest";
import { AMOUNT_MAX } from "../../../../src/base/units.ts";
import { Settlement } from "../../../../src/engine/algorithms/settlement.ts";
import { WAIT_US_MAX } from "../../../../src/engine/domain/limit.ts";
import { Mode, type Take, TakeGroup } from "../../../../src/engine/domain/take.ts";
import { Buckets } from "../../../../src/stores/memory/buckets.ts";
import { fillGroup, START_US, takeOf } from "../../../contract/store-harness.ts";
import { limitOf } from "../../../property/histories.ts";
import { bucketNumbers } from "../../../property/rates.ts";
import { runs } from "../../../support/runs.ts";

// Promise(limits): A lowered rate keeps what was spent, on every store.
test("a bucket is kept as long as the rate needs that it was last asked about, refused or only looked at", () => {
  const costs = fc.integer({ min: 1, max: AMOUNT_MAX });
  fc.assert(
    fc.property(bucketNumbers(), bucketNumbers(), costs, fc.boolean(), (written, edited, cost, peeks) => {
      const buckets = new Buckets({ bucketsMax: 10, logBytesMax: 0, onEvicted: () => undefined });
      const settlement = new Settlement(buckets);
      const take = (nowUs: number, numbers: typeof written, mode: Mode, asked: number): Take => {
        const group = new TakeGroup();
        fillGroup(group, [{ limit: limitOf(numbers), mode, cost: asked }], "", false);
        settlement.settle(group, nowUs);
        return takeOf(group, 0);
      };
      take(START_US, written, Mode.postPaid, cost);
      const { resetUs } = take(START_US + 1, edited, peeks ? Mode.peek : Mode.pay, edited.burst + 1);
      fc.pre(resetUs > 1 && resetUs < WAIT_US_MAX);
      const lastUs = START_US + resetUs;
      buckets.sweep(5_000, Math.floor(lastUs / 1_000_000));
      expect(take(lastUs, edited, Mode.peek, 1).resetUs).toBe(1);
    }),
    { numRuns: runs(300) },
  );
});
