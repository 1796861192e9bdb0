// What holds promise, against a model that knows nothing of buckets: where estimates cover the cost, what callers used stays
// within the limit, whatever comes late, twice or never; and what is held is held no longer than its ttl.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DebtLows } from "../../src/engine/algorithms/debt-lows.ts";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import { HoldFound, Mode, Outcome, type Take, TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { CONCURRENT_KEY_SUFFIX } from "../../src/engine/rules/bucket-key.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { fillGroup, SECOND_US, START_US, takeOf } from "../contract/store-harness.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";
import { HoldModel } from "./hold-models.ts";
import { type HoldOperation, holdOperations } from "./hold-operations.ts";
import { overspent, type Use } from "./overspent.ts";

const TTL_SECONDS = 60;

/** A request to a model: what it may use, what it uses, how long it takes, and what becomes of its report. */
interface Stream {
  /** After the one before. */
  readonly afterUs: number;
  readonly estimate: number;
  /** What it uses, in parts of a thousand of the estimate. */
  readonly usedShare: number;
  readonly takesUs: number;
  readonly reports: "once" | "twice" | "never";
  readonly again: number;
}

interface Event {
  readonly atUs: number;
  readonly run: () => void;
}

function streams(usedShareMax: number): fc.Arbitrary<Stream[]> {
  return fc.array(
    fc.record({
      afterUs: fc.oneof(
        { weight: 3, arbitrary: fc.integer({ min: 0, max: 2 * SECOND_US }) },
        { weight: 1, arbitrary: fc.integer({ min: 0, max: 90 * SECOND_US }) },
      ),
      estimate: fc.integer({ min: 1, max: 60 }),
      usedShare: fc.integer({ min: 0, max: usedShareMax }),
      takesUs: fc.oneof(
        { weight: 3, arbitrary: fc.integer({ min: 0, max: TTL_SECONDS * SECOND_US - 1 }) },
        { weight: 1, arbitrary: fc.integer({ min: 0, max: 3 * TTL_SECONDS * SECOND_US }) },
      ),
      reports: fc.constantFrom("once", "once", "once", "twice", "never"),
      again: fc.integer({ min: 0, max: TTL_SECONDS * SECOND_US - 1 }),
    }),
    { minLength: 20, maxLength: 60 },
  );
}

class Budget {
  readonly clock = new ManualClock();
  readonly store = new MemoryStore({ clock: this.clock });
  readonly limit;
  readonly #queue: Event[] = [];

  constructor(limit: ReturnType<typeof makeLimit>) {
    this.limit = limit;
    this.clock.setUs(START_US);
  }

  ask(mode: Mode, cost: number, holdId: string): { passed: boolean; found: number; remaining: number; take: Take } {
    const group = new TakeGroup();
    fillGroup(group, [{ limit: this.limit, mode, cost, holdId }], "", false);
    this.store.take(group);
    const take = takeOf(group, 0);
    return { passed: group.verdict === Verdict.allowed, found: take.held, remaining: take.remaining, take };
  }

  remaining(): number {
    return this.ask(Mode.peek, 1, "").remaining;
  }

  at(atUs: number, run: () => void): void {
    this.#queue.push({ atUs, run });
  }

  /** Runs all events in the order of their time; `then` after each. */
  play(then: () => void = () => undefined): void {
    while (this.#queue.length > 0) {
      this.#queue.sort((one, other) => one.atUs - other.atUs);
      const { atUs, run } = this.#queue.shift() as Event;
      this.clock.setUs(atUs);
      run();
      then();
    }
  }
}

const tokenBucket = fc
  .record({ amount: fc.integer({ min: 1, max: 100 }), burst: fc.integer({ min: 60, max: 200 }) })
  .map(({ amount, burst }) =>
    makeLimit({
      algorithm: Algorithm.tokenBucket,
      amount,
      burst,
      windowSeconds: 60,
      holdSeconds: TTL_SECONDS,
      debtMax: 1_000_000,
    }),
  );

/** Plays the streams; tells what those used that were admitted and whose reports came in time. */
function playStreams(budget: Budget, asked: readonly Stream[], then?: () => void): Use[] {
  const uses: Use[] = [];
  let atUs = START_US;
  for (const [i, stream] of asked.entries()) {
    atUs += stream.afterUs;
    const id = `r${i}`;
    const used = Math.floor((stream.estimate * stream.usedShare) / 1000);
    budget.at(atUs, () => {
      if (!budget.ask(Mode.pay, stream.estimate, id).passed) return;
      const beganUs = budget.clock.nowUs();
      const endsUs = beganUs + stream.takesUs;
      if (stream.reports === "never") return;
      const isInTime = stream.takesUs < TTL_SECONDS * SECOND_US;
      // What comes after its hold has ended is charged when it comes.
      uses.push({ atUs: isInTime ? beganUs : endsUs, used });
      budget.at(endsUs, () => {
        expect(budget.ask(Mode.settle, used, id).found).toBe(isInTime ? stream.estimate : HoldFound.none);
      });
      if (stream.reports !== "twice") return;
      budget.at(endsUs + stream.again, () => {
        expect(budget.ask(Mode.settle, used, id).found).toBe(HoldFound.settled);
      });
    });
  }
  budget.play(then);
  return uses;
}

// Promise(holds): Concurrent calls never overspend a budget that their estimates cover.
// Promise(holds): A call that costs more than its estimate overspends by the difference and no more.
test.each([
  { of: "that cover the cost", usedShareMax: 1_000 },
  { of: "that fall short of it, but for the difference", usedShareMax: 3_000 },
])("a budget is never overspent by estimates $of, reported in time, once, twice or never", ({ usedShareMax }) => {
  let passed = 0;
  let refused = 0;
  fc.assert(
    fc.property(tokenBucket, streams(usedShareMax), (limit, asked) => {
      const inTime = asked.map((stream) => ({ ...stream, takesUs: stream.takesUs % (TTL_SECONDS * SECOND_US) }));
      const uses = playStreams(new Budget(limit), inTime);
      passed += uses.length;
      refused += inTime.filter(({ reports }) => reports !== "never").length - uses.length;
      const difference = inTime.reduce(
        (sum, { estimate, usedShare }) => sum + Math.max(0, Math.floor((estimate * usedShare) / 1000) - estimate),
        0,
      );
      expect(overspent(uses, limit.burst + difference, limit.amount / 60)).toBeLessThanOrEqual(1e-6);
    }),
    { numRuns: runs(250) },
  );
  // Neither is the limit so high that all pass nor so low that none does.
  expect(Math.min(passed, refused)).toBeGreaterThan(runs(250));
});

test("a budget in a fixed window comes to what was used in the window of the payment", () => {
  fc.assert(
    fc.property(fc.integer({ min: 60, max: 200 }), streams(1_000), (amount, asked) => {
      const limit = makeLimit({
        algorithm: Algorithm.fixedWindow,
        amount,
        windowSeconds: 3_600,
        holdSeconds: TTL_SECONDS,
      });
      const budget = new Budget(limit);
      const inTime = asked.map((stream) => ({ ...stream, takesUs: stream.takesUs % (TTL_SECONDS * SECOND_US) }));
      const uses = playStreams(budget, inTime);
      const windowOf = (us: number) => Math.floor(us / (3_600 * SECOND_US));
      const byWindow = new Map<number, number>();
      for (const { atUs, used } of uses) byWindow.set(windowOf(atUs), (byWindow.get(windowOf(atUs)) ?? 0) + used);
      for (const sum of byWindow.values()) expect(sum).toBeLessThanOrEqual(amount);
      // All holds have ended: what is left is what was not used.
      const lastUs = budget.clock.nowUs();
      budget.clock.setUs(lastUs + TTL_SECONDS * SECOND_US);
      if (windowOf(lastUs + TTL_SECONDS * SECOND_US) !== windowOf(START_US)) return;
      expect(budget.remaining()).toBe(amount - (byWindow.get(windowOf(START_US)) ?? 0));
    }),
    { numRuns: runs(300) },
  );
});

// Promise(holds): A hold that nobody settles ends after its ttl.
test("an unsettled hold is given back after its ttl, whether or not anyone asks meanwhile", () => {
  fc.assert(
    fc.property(streams(1_000), fc.array(fc.nat({ max: 400 * SECOND_US }), { maxLength: 20 }), (asked, looks) => {
      const limit = makeLimit({
        algorithm: Algorithm.fixedWindow,
        amount: 5_000,
        windowSeconds: 86_400,
        holdSeconds: 60,
      });
      const left = (peeksAt: readonly number[]) => {
        const budget = new Budget(limit);
        for (const us of peeksAt) budget.at(START_US + us, () => budget.remaining());
        const uses = playStreams(budget, asked);
        const used = uses.reduce((sum, use) => sum + use.used, 0);
        budget.clock.setUs(Math.max(budget.clock.nowUs(), START_US) + TTL_SECONDS * SECOND_US);
        return { remaining: budget.remaining(), used };
      };
      const quiet = left([]);
      expect(quiet.remaining).toBe(5_000 - quiet.used);
      expect(left(looks)).toEqual(quiet);
    }),
    { numRuns: runs(200) },
  );
});

const operations = holdOperations({
  ids: ["a", "b", "c", "d"],
  amounts: fc.integer({ min: 1, max: 80 }),
  distances: fc.oneof(
    { weight: 2, arbitrary: fc.integer({ min: 0, max: 3 * SECOND_US }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 70 * SECOND_US }) },
    { weight: 1, arbitrary: fc.constantFrom(0, 1, TTL_SECONDS * SECOND_US) },
  ),
});

/** Plays the operations on the store and on the model, and holds them equal; tells how often each thing was found. */
function expectAsModelled(
  limit: ReturnType<typeof makeLimit>,
  asked: readonly HoldOperation[],
  seen: Map<string, number>,
): void {
  const note = (what: string) => seen.set(what, (seen.get(what) ?? 0) + 1);
  const budget = new Budget(limit);
  const { isConcurrent } = limit;
  const rate = limit.amount / limit.windowSeconds / SECOND_US;
  const model = new HoldModel({ rate, burst: limit.burst, ttl: limit.holdSeconds * SECOND_US, isConcurrent });
  let nowUs = START_US;
  for (const { afterUs, kind, id, amount } of asked) {
    nowUs += afterUs;
    budget.clock.setUs(nowUs);
    const now = nowUs - START_US;
    const cost = isConcurrent ? 1 : amount;
    if (kind === "pay") {
      const room = model.room(cost, now);
      const { passed, take } = budget.ask(Mode.pay, cost, id);
      // So near to the limit the model's rounding decides.
      if (Math.abs(room) > 1e-3) expect(passed).toBe(room > 0);
      if (!isConcurrent && take.outcome === Outcome.over) {
        expect(model.roomLater(cost, now + take.waitUs - 1)).toBeLessThan(1e-3);
        note(take.waitUs < Math.floor(-room / rate) ? "waits for a hold" : "waits for tokens");
      }
      if (passed) model.pay(id, cost, now);
      note(passed ? "passed" : "refused");
    } else if (kind === "settle") {
      const { found } = budget.ask(Mode.settle, amount, id);
      expect(found).toBe(model.settle(id, amount, now));
      note(found === HoldFound.settled ? "settled already" : found === HoldFound.none ? "none" : "live");
    }
    expect(Math.abs(budget.remaining() - Math.max(0, Math.floor(model.room(0, now) + 1e-3)))).toBeLessThanOrEqual(1);
  }
}

const FOUND = ["passed", "refused", "live", "none", "settled already"];

describe.each([
  { name: "budgets", limits: tokenBucket, found: [...FOUND, "waits for a hold", "waits for tokens"] },
  {
    name: "limits of holds at once",
    found: FOUND,
    limits: fc.integer({ min: 1, max: 3 }).map((places) =>
      makeLimit({
        amount: 0,
        burst: places,
        windowSeconds: TTL_SECONDS,
        holdSeconds: TTL_SECONDS,
        isConcurrent: true,
        keySuffix: CONCURRENT_KEY_SUFFIX,
      }),
    ),
  },
])("$name", ({ limits, found }) => {
  // Promise(holds): A settlement gives back what was not used, however much refilled meanwhile.
  // Promise(holds): Repeated ids and reports neither save nor cost anything; at most `concurrent` calls run at once.
  test("are as a model says, whatever callers do with ids and reports", () => {
    const seen = new Map<string, number>();
    fc.assert(
      fc.property(limits, operations, (limit, asked) => expectAsModelled(limit, asked, seen)),
      { numRuns: runs(300) },
    );
    for (const what of found) expect([what, (seen.get(what) ?? 0) > runs(300) / 2]).toEqual([what, true]);
  });
});

test("lows that are kept tell no more than all of them would, and of a few no less", () => {
  const step = fc.record({
    kind: fc.constantFrom("pay" as const, "pay" as const, "release" as const),
    debt: fc.integer({ min: 0, max: 100_000 }),
    which: fc.nat(),
  });
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 200 }), fc.boolean(), (steps, rises) => {
      const kept = new DebtLows();
      const all: number[] = [];
      const held: number[] = [];
      let most = 0;
      for (const [i, { kind, debt, which }] of steps.entries()) {
        const before = rises ? i * 1_000 + (debt % 1_000) : debt;
        if (kind === "pay" || held.length === 0) {
          kept.notePayment(before);
          all.push(before);
          held.push(all.length);
          kept.hold(200_000);
        } else {
          const [payment = 0] = held.splice(which % held.length, 1);
          const truth = Math.min(200_000, before, ...all.slice(payment));
          const told = Math.min(200_000, before, kept.since(payment));
          expect(told).toBeLessThanOrEqual(truth);
          if (most <= 60) expect(told).toBe(truth);
          kept.takeOff(payment, told);
          for (let at = payment; at < all.length; at++) all[at] = Math.max(0, (all[at] as number) - told);
          kept.release(200_000);
        }
        most = Math.max(most, held.length);
      }
    }),
    { numRuns: runs(300) },
  );
});
