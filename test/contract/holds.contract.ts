// What every store does with a bucket that can have no more holds.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Algorithm } from "../../src/core/limit.ts";
import { Verdict } from "../../src/core/take.ts";
import { makeLimit } from "../support/builders.ts";
import { advance, ask, type HarnessFactory, look, SECOND_US, type StoreHarness } from "./store-harness.ts";

const budget = makeLimit({
  algorithm: Algorithm.tokenBucket,
  amount: 100,
  burst: 100,
  windowSeconds: 86_400,
  holdSeconds: 60,
});
const crowded = makeLimit({
  algorithm: Algorithm.fixedWindow,
  amount: 1_000_000,
  windowSeconds: 86_400,
  holdSeconds: 3_600,
});
const HOLDS_MAX = 10_000;
const TOGETHER = 50;

/** Runs the contract of stores for limits with holds. `factory` makes a fresh one for each test. */
export function describeHoldsContract(name: string, factory: HarnessFactory): void {
  describe(`holds in the ${name}`, () => {
    let harness: StoreHarness;
    beforeEach(async () => {
      harness = await factory();
    });
    afterEach(() => harness.close());

    test("a call for whose holds one bucket has no room leaves its other buckets what they owe", async () => {
      for (let i = 0; i < HOLDS_MAX; i += TOGETHER) {
        await ask(
          harness,
          Array.from({ length: TOGETHER }, (_, j) => ({ limit: crowded, identity: "crowd", holdId: `r${i + j}` })),
        );
      }
      for (const identity of ["asked", "alone"]) {
        await ask(harness, [{ limit: budget, identity, cost: 90 }]);
        await ask(harness, [{ limit: budget, identity, cost: 5, holdId: "ends" }]);
      }
      advance(harness, 61 * SECOND_US);
      const group = ask(harness, [
        { limit: budget, identity: "asked", holdId: "new" },
        { limit: crowded, identity: "crowd", holdId: "one more" },
      ]);
      const outcome = await group.then(
        ({ verdict, failure }) => [verdict, failure?.code],
        (failure: { code: string }) => [Verdict.failed, failure.code],
      );
      expect(outcome).toEqual([Verdict.failed, "STORE_HOLDS_FULL"]);
      advance(harness, 5 * SECOND_US);
      // New buckets make the memory store sweep.
      for (let i = 0; i < 1_000; i += TOGETHER) {
        await ask(
          harness,
          Array.from({ length: TOGETHER }, (_, j) => ({ limit: crowded, identity: `other ${i + j}` })),
        );
      }
      const left = await look(harness, budget, "asked");
      // On several servers the one that had room was paid: the answers that came stay in force.
      const { remaining } = await look(harness, budget, "alone");
      expect([remaining, remaining - 1]).toContain(left.remaining);
      expect(remaining).toBeLessThan(20);
    });
  });
}
