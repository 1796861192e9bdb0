// What each algorithm answers at its bounds, and where a rule is edited or time steps back: TypeScript in memory, Lua in Redis. What takes
// come to between those is in test/property/algorithms.test.ts, and test/property/agreement.ts compares every store with that.

import { beforeEach, describe, expect, test } from "vitest";
import { AMOUNT_MAX, COST_ABOVE_ALL } from "../../src/base/units.ts";
import { ALGORITHM_NAMES, Algorithm, type Limit } from "../../src/engine/domain/limit.ts";
import { Mode, Outcome } from "../../src/engine/domain/take.ts";
import { makeLimit } from "../support/builders.ts";
import { advance, askOne, type HarnessFactory, look, SECOND_US, START_US, type StoreHarness } from "./store-harness.ts";

const ALL = Object.values(Algorithm);

type Open = () => StoreHarness;

function askerOf(open: Open) {
  return (limit: Limit, cost = 1, mode: Mode = Mode.pay) => askOne(open(), { limit, cost, mode });
}

/** Runs the contract of the algorithms against a store. */
export function describeAlgorithmContract(name: string, factory: HarnessFactory): void {
  describe(`algorithms of the ${name}`, () => {
    let harness: StoreHarness;
    beforeEach(async () => {
      harness = await factory();
    });
    const open = () => harness;

    describe.each(ALL.map((algorithm) => ({ algorithm, name: ALGORITHM_NAMES[algorithm] })))(
      "$name",
      ({ algorithm }) => {
        testTakes(open, algorithm);
        testTime(open, algorithm);
      },
    );
    describe("token bucket", () => testTokenBucket(open));
    describe("sliding window", () => testSlidingWindow(open));
  });
}

function testTakes(open: Open, algorithm: Algorithm): void {
  const askNow = askerOf(open);
  test("allows ten hits of ten and denies the eleventh", async () => {
    const limit = makeLimit({ algorithm, windowSeconds: 60 });
    const remaining: number[] = [];
    for (let i = 0; i < 10; i++) remaining.push((await askNow(limit)).remaining);
    expect(remaining).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    expect(await askNow(limit)).toMatchObject({ outcome: Outcome.over, paid: false, remaining: 0, paidAtUs: 0 });
  });

  // Promise(limits): A bucket starts full.
  test("pays a whole burst at once, and says when it was paid", async () => {
    const limit = makeLimit({ algorithm, windowSeconds: 60 });
    advance(open(), 1_234_567);
    const paid = await askNow(limit, 10);
    expect(paid).toMatchObject({ outcome: Outcome.room, paid: true, remaining: 0, waitUs: 0 });
    expect(paid.paidAtUs).toBe(START_US + 1_234_567);
  });

  test("never has room for a cost above the limit", async () => {
    const limit = makeLimit({ algorithm });
    expect(await askNow(limit, 11)).toMatchObject({
      outcome: Outcome.never,
      waitUs: 0,
      remaining: 10,
    });
    expect(await askNow(limit, COST_ABOVE_ALL)).toMatchObject({ outcome: Outcome.never, paid: false });
    expect(await look(open(), limit)).toMatchObject({ remaining: 10, resetUs: 0 });
  });
}

function testTime(open: Open, algorithm: Algorithm): void {
  const askNow = askerOf(open);
  test("keeps what was used when time steps back by days", async () => {
    const limit = makeLimit({ algorithm, windowSeconds: 60 });
    await askNow(limit, 10);
    advance(open(), -3 * 86_400 * SECOND_US);
    const refused = await askNow(limit);
    expect(refused).toMatchObject({ outcome: Outcome.over, remaining: 0 });
    expect(refused.waitUs).toBeLessThanOrEqual(120 * SECOND_US);
    advance(open(), refused.waitUs);
    expect((await askNow(limit)).outcome).toBe(Outcome.room);
  });

  test.each([
    { seconds: 5, paidAtUs: START_US },
    { seconds: 10, paidAtUs: START_US },
    { seconds: 11, paidAtUs: START_US - 11 * SECOND_US },
  ])("stays at the time of a state that is dated up to ten seconds later than now: $seconds", async (row) => {
    const limit = makeLimit({ algorithm, windowSeconds: 60 });
    await askNow(limit, 4);
    advance(open(), -row.seconds * SECOND_US);
    expect(await askNow(limit)).toMatchObject({ outcome: Outcome.room, remaining: 5, paidAtUs: row.paidAtUs });
  });

  test("keeps the count when the rule is edited from 100 to 50 per minute", async () => {
    const old = makeLimit({ algorithm, amount: 100, windowSeconds: 60 });
    const edited = makeLimit({ algorithm, amount: 50, windowSeconds: 60 });
    await askNow(old, 30);
    expect((await look(open(), edited)).remaining).toBe(20);
    await askNow(old, 40);
    expect(await askNow(edited)).toMatchObject({ outcome: Outcome.over, remaining: 0 });
    expect((await look(open(), old)).remaining).toBe(30);
  });

  test("starts again when the rule is edited from minute to hour", async () => {
    await askNow(makeLimit({ algorithm, windowSeconds: 60 }), 10);
    expect((await look(open(), makeLimit({ algorithm, windowSeconds: 3_600 }))).remaining).toBe(10);
  });
}

function testTokenBucket(open: Open): void {
  const askNow = askerOf(open);
  test("caps the debt of post-paid hits and counts what was not recorded", async () => {
    const limit = makeLimit({ amount: 10, burst: 10, debtMax: 40 });
    expect(await askNow(limit, 30, Mode.postPaid)).toMatchObject({ cappedHits: 0, resetUs: 3_000_000 });
    expect(await askNow(limit, 30, Mode.postPaid)).toMatchObject({ cappedHits: 20, resetUs: 4_000_000 });
    expect(await askNow(limit, 7, Mode.postPaid)).toMatchObject({ cappedHits: 7, resetUs: 4_000_000 });
    advance(open(), 50_000);
    expect(await askNow(limit, 1, Mode.postPaid)).toMatchObject({ cappedHits: 1, resetUs: 4_000_000 });
  });

  test("keeps a debt above a debt_max that was lowered", async () => {
    await askNow(makeLimit({ debtMax: 90 }), 90, Mode.postPaid);
    const lowered = makeLimit({ debtMax: 20 });
    expect(await askNow(lowered, 5, Mode.postPaid)).toMatchObject({ cappedHits: 5, resetUs: 9_000_000 });
  });

  test("is exact with the largest numbers there are", async () => {
    const year = 31_536_000;
    const limit = makeLimit({ amount: AMOUNT_MAX, burst: AMOUNT_MAX, debtMax: AMOUNT_MAX, windowSeconds: year });
    expect(await askNow(limit, AMOUNT_MAX)).toMatchObject({ paid: true, remaining: 0, resetUs: year * SECOND_US });
    expect(await askNow(limit, AMOUNT_MAX)).toMatchObject({ outcome: Outcome.over, waitUs: year * SECOND_US });
    // A token returns each 7,343 microseconds: 31,536,000 s / 4,294,967,295.
    expect(await askNow(limit)).toMatchObject({ outcome: Outcome.over, waitUs: 7_343 });
    advance(open(), year);
    expect(await look(open(), limit)).toMatchObject({ remaining: 4_294, resetUs: year * (SECOND_US - 1) });
    expect(await askNow(limit, AMOUNT_MAX, Mode.postPaid)).toMatchObject({ cappedHits: AMOUNT_MAX - 4_294 });
  });
}

function testSlidingWindow(open: Open): void {
  const askNow = askerOf(open);
  test("is exact with the largest numbers there are", async () => {
    const large = makeLimit({ algorithm: Algorithm.slidingWindow, amount: AMOUNT_MAX, windowSeconds: 60 });
    await askNow(large, AMOUNT_MAX);
    advance(open(), 60 * SECOND_US + 60);
    expect((await look(open(), large)).remaining).toBe(4_294);
    expect(await askNow(large, 4_295)).toMatchObject({ outcome: Outcome.over, waitUs: 60 });
    expect(await askNow(large, 4_294)).toMatchObject({ paid: true, remaining: 0 });
    expect(await askNow(large, AMOUNT_MAX, Mode.postPaid)).toMatchObject({ cappedHits: 4_294 });
  });
}
