// What every store does with buckets that have many holds.

import { beforeEach, describe, expect, test } from "vitest";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import { HoldFound, Mode, Verdict } from "../../src/engine/domain/take.ts";
import { CONCURRENT_KEY_SUFFIX } from "../../src/engine/rules/bucket-key.ts";
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
const crowdedFor60 = makeLimit({
  algorithm: Algorithm.fixedWindow,
  amount: 1_000_000,
  windowSeconds: 86_400,
  holdSeconds: 60,
});
/** More than one call ends. */
const MANY = 100;
const HOLDS_MAX = 10_000;
const TOGETHER = 250;

/** Runs the contract of stores for limits with holds. `factory` makes a fresh one for each test. */
export function describeHoldsContract(name: string, factory: HarnessFactory): void {
  describe(`holds in the ${name}`, () => {
    let harness: StoreHarness;
    beforeEach(async () => {
      harness = await factory();
    });

    test("an id is free once its hold has ended, although the hold still waits to be given back", async () => {
      const keySuffix = CONCURRENT_KEY_SUFFIX;
      const many = { amount: 0, burst: 1_000, windowSeconds: 60, holdSeconds: 60 };
      const places = makeLimit({ ...many, isConcurrent: true, keySuffix });
      const limits = [crowdedFor60, places];
      const asks = (holdId: string, more = {}) => limits.map((limit) => ({ limit, identity: "many", holdId, ...more }));
      const counted = async (holdId: string, more = {}) =>
        (await ask(harness, asks(holdId, more))).takes.slice(0, 2).map((take) => take.counted);
      for (let i = 0; i < MANY; i += 25)
        await ask(harness, Array.from({ length: 25 }, (_, j) => asks(`r${i + j}`)).flat());
      advance(harness, 61 * SECOND_US);
      const last = `r${MANY - 1}`;
      expect(await counted(last, { mode: Mode.settle })).toEqual([HoldFound.none, HoldFound.none]);
      const again = `r${MANY - 2}`;
      expect(await counted(again)).toEqual([1, 1]);
      expect(await counted(again, { mode: Mode.settle })).toEqual([1, 1]);
      expect(await counted(again, { mode: Mode.settle })).toEqual([HoldFound.settled, HoldFound.settled]);
      for (let i = 0; i < 20; i++) for (const limit of limits) await look(harness, limit, "many");
      const left = await Promise.all(limits.map((limit) => look(harness, limit, "many")));
      expect(left.map(({ remaining }) => remaining)).toEqual([crowdedFor60.burst - 2, 1_000]);
    });

    // Promise(holds): A call without room for its hold in one bucket changes no other bucket.
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
