// What every store does with buckets that have many holds.

import { beforeEach, describe, expect, test } from "vitest";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import { HoldFound, Mode, Outcome, Verdict } from "../../src/engine/domain/take.ts";
import { CONCURRENT_KEY_SUFFIX } from "../../src/engine/rules/bucket-key.ts";
import { makeLimit } from "../support/builders.ts";
import { advance, ask, askOne, type HarnessFactory, look, SECOND_US, type StoreHarness } from "./store-harness.ts";

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

    const DAY_SECONDS = 86_400;
    const day = { amount: 100, windowSeconds: DAY_SECONDS, holdSeconds: 60 };
    const slow = makeLimit({ ...day, algorithm: Algorithm.tokenBucket, burst: 100 });
    const daily = makeLimit({ ...day, algorithm: Algorithm.fixedWindow });
    const quick = makeLimit({
      algorithm: Algorithm.tokenBucket,
      amount: 60,
      burst: 100,
      windowSeconds: 60,
      holdSeconds: 60,
    });
    const TEN_OF_9 = "0:9 1:9 2:9 3:9 4:9 5:9 6:9 7:9 8:9 9:9";

    // Promise(holds): A refused call is told to come back when holds that end make room, not later.
    test.each([
      // A hold that is opened at 0 ends at 60.
      { limit: daily, opens: "0:60 1:40", asksAt: 20, cost: 50, seconds: 40 },
      { limit: slow, opens: "0:60 1:40", asksAt: 20, cost: 50, seconds: 40 },
      { limit: daily, opens: "0:30 1:30 2:40", asksAt: 20, cost: 50, seconds: 41 },
      // Tokens return sooner; a hold and some tokens do; a payment that has returned by itself makes no room.
      { limit: quick, opens: "0:60 0:40", asksAt: 0, cost: 50, seconds: 50 },
      { limit: quick, opens: "0:30 10:60", asksAt: 30, cost: 95, seconds: 35 },
      { limit: quick, opens: "0:10 40:80", asksAt: 40, cost: 80, seconds: 60 },
      // Holds of a window that is over make no room, and hold nothing in the next one.
      { limit: daily, opens: "-30:100 1:100", asksAt: 5, cost: 50, seconds: 56 },
      // Ten holds would have to end, but only five are looked at.
      { limit: daily, opens: TEN_OF_9, asksAt: 10, cost: 100, seconds: 54 },
      { limit: daily, opens: "0:60", asksAt: 20, cost: 101, seconds: 0 },
    ])("a refusal waits until holds or tokens make room: $opens, $cost at $asksAt: $seconds s", async (row) => {
      const { limit, opens, asksAt, cost, seconds } = row;
      const startUs = harness.nowUs() + DAY_SECONDS * SECOND_US;
      for (const [i, hold] of opens.split(" ").entries()) {
        const [at = 0, held = 0] = hold.split(":").map(Number);
        harness.setUs(startUs + at * SECOND_US);
        expect((await askOne(harness, { limit, cost: held, holdId: `r${i}` })).paid).toBe(true);
      }
      harness.setUs(startUs + asksAt * SECOND_US);
      for (const mode of [Mode.pay, Mode.peek]) {
        const { outcome, waitUs } = await askOne(harness, { limit, cost, mode, holdId: "one more" });
        const expected = seconds > 0 ? Outcome.over : Outcome.never;
        expect({ outcome, seconds: waitUs / SECOND_US }).toEqual({ outcome: expected, seconds });
      }
    });

    test.each([daily, slow])(
      "a payment whose hold has ended is not given back again under another hold's id",
      async (limit) => {
        const pays = [{ limit, cost: 30, holdId: "again" }];
        const late = await ask(harness, pays);
        advance(harness, 61 * SECOND_US);
        expect((await ask(harness, pays)).verdict).toBe(Verdict.allowed);
        await harness.giveBack(late);
        expect((await look(harness, limit)).remaining).toBe(70);
      },
    );

    test("an id is free once its hold has ended, although the hold still waits to be given back", async () => {
      const keySuffix = CONCURRENT_KEY_SUFFIX;
      const many = { amount: 0, burst: 1_000, windowSeconds: 60, holdSeconds: 60 };
      const places = makeLimit({ ...many, isConcurrent: true, keySuffix });
      const limits = [crowdedFor60, places];
      const asks = (holdId: string, more = {}) => limits.map((limit) => ({ limit, identity: "many", holdId, ...more }));
      const takesOf = async (holdId: string, more = {}) => (await ask(harness, asks(holdId, more))).takes.slice(0, 2);
      const held = async (holdId: string) => (await takesOf(holdId, { mode: Mode.settle })).map((take) => take.held);
      for (let i = 0; i < MANY; i += 25)
        await ask(harness, Array.from({ length: 25 }, (_, j) => asks(`r${i + j}`)).flat());
      advance(harness, 61 * SECOND_US);
      const last = `r${MANY - 1}`;
      expect(await held(last)).toEqual([HoldFound.none, HoldFound.none]);
      const again = `r${MANY - 2}`;
      expect((await takesOf(again)).map(({ openedHold }) => openedHold)).toEqual([true, true]);
      expect(await held(again)).toEqual([1, 1]);
      expect(await held(again)).toEqual([HoldFound.settled, HoldFound.settled]);
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
