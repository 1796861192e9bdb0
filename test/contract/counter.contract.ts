// What every store does with counters of COMPATIBILITY_MODE: charged each for itself and before the rest of their call, which pays nothing if
// they refuse it. Alone, and several times in a call, they are in test/vectors, and
// test/property/counters-agree.server.test.ts compares the stores.

import { beforeEach, describe, expect, test } from "vitest";
import { Kind, Mode, Outcome, type Take, type TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { makeLimit } from "../support/builders.ts";
import {
  type Ask,
  advance,
  askOne,
  groupOf,
  type HarnessFactory,
  look,
  SECOND_US,
  type StoreHarness,
  settleWithCounters,
  takeOf,
} from "./store-harness.ts";

const counterOf = (amount: number) => makeLimit({ algorithm: 2, isCounter: true, amount, windowSeconds: 60 });
const three = counterOf(3);
const ten = counterOf(10);
const bucket = makeLimit({ amount: 1, burst: 4, windowSeconds: 86_400 });

const charge = (identity: string, cost = 1, limit = three): Ask => ({ limit, identity, cost, mode: Mode.pay });

/** Runs the contract of counters. `factory` makes a fresh store for each test. */
export function describeCounterContract(name: string, factory: HarnessFactory): void {
  describe(`counters in the ${name}`, () => {
    let harness: StoreHarness;
    beforeEach(async () => {
      harness = await factory();
    });

    const open = () => harness;
    describeCharges(open);
    describeStopping(open);
    describeRefunds(open);
  });
}

async function settleCounters(
  harness: StoreHarness,
  asks: readonly Ask[],
  { stopsAtOver = false } = {},
): Promise<TakeGroup> {
  const group = groupOf(asks, harness.keyPrefix);
  for (const take of group.takes) if (take.mode === Mode.denied) take.outcome = Outcome.over;
  await settleWithCounters(harness, group, stopsAtOver);
  return group;
}

async function chargeOne(harness: StoreHarness, one: Ask): Promise<Take> {
  return takeOf(await settleCounters(harness, [one]), 0);
}

/** The count of a counter; a charge of nothing changes nothing. */
async function countOf(harness: StoreHarness, identity: string, limit = three): Promise<number> {
  return (await chargeOne(harness, charge(identity, 0, limit))).count;
}

function describeCharges(open: () => StoreHarness): void {
  test("keep their count as long as the window that their key names lasts", async () => {
    await chargeOne(open(), charge("a", 2));
    advance(open(), 59 * SECOND_US);
    expect(await countOf(open(), "a")).toBe(2);
  });

  // Promise(compatibility): Counters of COMPATIBILITY_MODE are the same in memory, Redis and PostgreSQL.
  test("stay charged in a refused call, while its other limits pay nothing", async () => {
    await chargeOne(open(), charge("full", 3));
    const group = await settleCounters(open(), [charge("a"), { limit: bucket, cost: 2 }, charge("full")]);
    expect(group.verdict).toBe(Verdict.refused);
    expect(takeOf(group, 1)).toMatchObject({ outcome: Outcome.room, paid: false, remaining: 4 });
    expect(await countOf(open(), "a")).toBe(1);
    expect(await countOf(open(), "full")).toBe(4);
    expect((await look(open(), bucket)).remaining).toBe(4);
  });

  test("are charged by a call that another limit refuses", async () => {
    expect((await askOne(open(), { limit: bucket, cost: 4 })).paid).toBe(true);
    const group = await settleCounters(open(), [charge("a", 2), { limit: bucket }]);
    expect(group.verdict).toBe(Verdict.refused);
    expect(await countOf(open(), "a")).toBe(2);
  });

  test("refuse no call under shadow mode, and under quota mode only all together", async () => {
    const shadow = await settleCounters(open(), [{ ...charge("a", 9), kind: Kind.shadow }]);
    expect(shadow).toMatchObject({ verdict: Verdict.allowed });
    expect(takeOf(shadow, 0).outcome).toBe(Outcome.over);
    const quotas = (cost: number) => [
      { ...charge("b", 9), kind: Kind.quota },
      { ...charge("c", cost), kind: Kind.quota },
    ];
    expect((await settleCounters(open(), quotas(1))).verdict).toBe(Verdict.allowed);
    expect((await settleCounters(open(), quotas(9))).verdict).toBe(Verdict.refused);
  });

  test("stay full when no larger count can be kept", async () => {
    const huge = 2 ** 64 - 1;
    expect(await chargeOne(open(), charge("a", huge))).toMatchObject({ outcome: Outcome.over, remaining: 0 });
    expect(await chargeOne(open(), charge("a", huge))).toMatchObject({ outcome: Outcome.over, remaining: 0 });
    const { outcome, count } = await chargeOne(open(), charge("a", huge));
    expect(outcome).toBe(Outcome.over);
    expect(count).toBeGreaterThanOrEqual(2 ** 53 - 1);
  });
}

function describeStopping(open: () => StoreHarness): void {
  const stopping = { stopsAtOver: true };

  test("of a call that stops at over are charged alone if they are over", async () => {
    await chargeOne(open(), charge("full", 3));
    const group = await settleCounters(open(), [charge("a"), charge("full")], stopping);
    expect(group.verdict).toBe(Verdict.refused);
    expect([takeOf(group, 0), takeOf(group, 1)].map(({ outcome, count }) => ({ outcome, count }))).toEqual([
      { outcome: Outcome.room, count: 0 },
      { outcome: Outcome.over, count: 4 },
    ]);
    expect(await countOf(open(), "a")).toBe(0);
  });

  test("of such a call are all charged if none is over", async () => {
    const group = await settleCounters(open(), [charge("a"), charge("b", 2), charge("c", 9, ten)], stopping);
    expect(group.verdict).toBe(Verdict.allowed);
    expect([await countOf(open(), "a"), await countOf(open(), "b"), await countOf(open(), "c", ten)]).toEqual([
      1, 2, 9,
    ]);
  });

  test("of such a call are left alone if one is known to be over already", async () => {
    await chargeOne(open(), charge("full", 3));
    const known: Ask = { ...charge("known"), mode: Mode.denied };
    const group = await settleCounters(open(), [charge("a"), known, charge("full")], stopping);
    expect(group.verdict).toBe(Verdict.refused);
    expect(takeOf(group, 1)).toMatchObject({ outcome: Outcome.over });
    expect([await countOf(open(), "a"), await countOf(open(), "known"), await countOf(open(), "full")]).toEqual([
      0, 0, 3,
    ]);
  });
}

function describeRefunds(open: () => StoreHarness): void {
  const refund = (identity: string, cost: number): Ask => ({ ...charge(identity, cost), mode: Mode.refund });

  test("give hits back, never below none", async () => {
    await chargeOne(open(), charge("a", 5));
    expect(await chargeOne(open(), refund("a", 3))).toMatchObject({ outcome: Outcome.room, remaining: 1 });
    expect(await countOf(open(), "a")).toBe(2);
    await chargeOne(open(), refund("a", 9));
    expect(await countOf(open(), "a")).toBe(0);
    await chargeOne(open(), refund("nobody", 9));
    expect(await countOf(open(), "nobody")).toBe(0);
  });
}
