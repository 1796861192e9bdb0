// Calls whose limits are partly leased: settled all or nothing, also when the store is late, refuses or fails. The bounds of leases are kept in
// test/property/lease.test.ts.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/errors.ts";
import { Algorithm, type Limit, Sync } from "../../../../src/engine/domain/limit.ts";
import { Kind, Mode, Outcome, Source, type TakeGroup, Verdict } from "../../../../src/engine/domain/take.ts";
import { Leases } from "../../../../src/stores/sync/lease.ts";
import { SyncStore } from "../../../../src/stores/sync/sync-store.ts";
import { type Ask, groupOf, takeOf } from "../../../contract/store-harness.ts";
import { makeLimit } from "../../../support/builders.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";

const NOBODY = { answered: () => undefined };
const AWAY = new StoreError("STORE_UNREACHABLE", "away");
const DAY = { windowSeconds: 86_400 } as const;
const leased = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 100, ...DAY, name: "lease", sync: Sync.lease });
const exact = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 10, ...DAY, name: "exact" });

let clock: ManualClock;
let behind: ScriptedStore;
let processes = 1;
let store: SyncStore;
beforeEach(() => {
  clock = new ManualClock();
  behind = new ScriptedStore(clock);
  processes = 1;
  store = new SyncStore(behind, new Leases(behind, () => processes, clock), clock);
});
afterEach(() => store.close());

function ask(...asks: Ask[]): TakeGroup {
  const group = groupOf(asks, "");
  store.take(group, NOBODY);
  return group;
}

/** What is left of a limit, as the store behind knows it. */
function leftBehind(limit: Limit): number {
  const group = groupOf([{ limit, mode: Mode.peek }], "");
  behind.take(group, NOBODY);
  return takeOf(group, 0).remaining;
}

const leftHere = (limit: Limit) => takeOf(ask({ limit, mode: Mode.peek }), 0).remaining;

/** Has the process hold a lease of 25; 98 are left. */
function lease(): void {
  for (let i = 0; i < 2; i++) ask({ limit: leased });
}

describe("calls in parts", () => {
  // Promise(hot): With `sync`, a refusal by the store puts the local part back.
  test("put the local part back when the store refuses", () => {
    lease();
    ask({ limit: exact, cost: 10 });
    const group = ask({ limit: leased, cost: 4 }, { limit: exact });
    expect(group.verdict).toBe(Verdict.refused);
    expect(takeOf(group, 0)).toMatchObject({ outcome: Outcome.room, paid: false, remaining: 98 });
    expect(leftHere(leased)).toBe(98);
  });

  test("leave the store's part unanswered when it fails, and can be given back", () => {
    lease();
    behind.failure = AWAY;
    const group = ask({ limit: leased, cost: 4 }, { limit: exact });
    expect(group).toMatchObject({ verdict: Verdict.failed, failure: AWAY });
    expect(group.takes.map(({ outcome, paid }) => [outcome, paid])).toEqual([
      [Outcome.room, true],
      [Outcome.unanswered, false],
    ]);
    store.giveBack(group);
    expect(leftHere(leased)).toBe(98);
  });

  test("pay none of a shadow descriptor of which one limit is over at the store", () => {
    lease();
    ask({ limit: exact, cost: 10 });
    const group = ask(
      { limit: leased, descriptor: 0, kind: Kind.shadow },
      { limit: exact, descriptor: 0, kind: Kind.shadow },
    );
    expect(group.verdict).toBe(Verdict.allowed);
    expect(leftHere(leased)).toBe(98);
  });

  test("pass by a quota descriptor that a lease has room for, though the store finds the other over", () => {
    lease();
    ask({ limit: exact, cost: 10 });
    expect(ask({ limit: leased, kind: Kind.quota }, { limit: exact, kind: Kind.quota }).verdict).toBe(Verdict.allowed);
    expect(leftHere(leased)).toBe(97);
  });

  test("show what two takes of one bucket have left together", () => {
    lease();
    const group = ask({ limit: leased, cost: 3 }, { limit: leased, cost: 4 });
    expect(group.takes.map(({ remaining }) => remaining)).toEqual([91, 91]);
  });
});

describe("late answers", () => {
  test("to a call that has been given up leave both places as they were, and its group alone", () => {
    lease();
    behind.holdsBack = true;
    const group = ask({ limit: leased, cost: 4 }, { limit: exact, cost: 3 });
    group.reset();
    group.add(exact).cost = 9;
    behind.release();
    behind.holdsBack = false;
    expect(group).toMatchObject({ size: 1, verdict: Verdict.pending });
    expect([leftHere(leased), leftBehind(exact)]).toEqual([98, 10]);
  });
});

describe("lease", () => {
  test("is taken by the second call within its time, and spent without the store", () => {
    ask({ limit: leased });
    ask({ limit: leased });
    expect(leftBehind(leased)).toBe(100 - 2 - 25);
    const asked = behind.seen.length;
    for (let i = 0; i < 25; i++) {
      const group = ask({ limit: leased });
      expect(group).toMatchObject({ verdict: Verdict.allowed, source: Source.lease });
      expect(takeOf(group, 0).remaining).toBe(97 - i);
    }
    expect(behind.seen).toHaveLength(asked);
    // A take, and a new lease.
    ask({ limit: leased });
    expect(behind.seen).toHaveLength(asked + 2);
  });

  test.each([
    { amount: 103, size: 25 },
    { amount: 7, size: 1 },
    { amount: 3, size: 0 },
  ])("is at most a quarter of the burst: $size of $amount", ({ amount, size }) => {
    const limit = { ...leased, amount, burst: amount, keySuffix: `}|fw/86400/${amount}` };
    ask({ limit });
    ask({ limit });
    expect(leftBehind(limit)).toBe(amount - 2 - size);
  });

  test("never holds more than it was given: what the store was paid goes back to the store", () => {
    ask({ limit: leased });
    // Has the receipt that the lease has, which is asked for behind it.
    const paid = ask({ limit: leased });
    store.giveBack(paid);
    expect(leftBehind(leased)).toBe(100 - 1 - 25);
    for (let i = 0; i < 25; i++) expect(ask({ limit: leased }).source).toBe(Source.lease);
    expect(ask({ limit: leased }).source).toBe(Source.store);
  });

  test("takes back no payment of the lease before it: that one's receipt goes to the store", () => {
    lease();
    const paid = ask({ limit: leased });
    for (let i = 0; i < 24; i++) ask({ limit: leased });
    clock.advanceUs(1);
    ask({ limit: leased });
    ask({ limit: leased });
    const left = leftBehind(leased);
    store.giveBack(paid);
    expect(leftBehind(leased)).toBe(left + 1);
  });

  test("is not spent by another limit, such as that of new rules", () => {
    lease();
    expect(ask({ limit: { ...leased } }).source).toBe(Source.store);
  });

  test.each([
    { of: "the store", source: Source.store, left: 98 - 50 },
    { of: "a denial memory", source: Source.denialMemory, left: 98 },
  ])("shows what an answer of $of says of the bucket: $left left", ({ source, left }) => {
    lease();
    const take = behind.take.bind(behind);
    behind.take = (group, then) => {
      const isAnswered = take(group, then);
      group.source = source;
      return isAnswered;
    };
    // More than the lease holds, so the store is asked, which another process has left little.
    clock.advanceUs(1);
    ask({ limit: leased, cost: 50 });
    expect(leftHere(leased)).toBe(left);
  });

  test("is smaller the more processes there are, and none while their number is not known", () => {
    processes = 5;
    ask({ limit: leased });
    ask({ limit: leased });
    expect(leftBehind(leased)).toBe(93);
    processes = Number.POSITIVE_INFINITY;
    const other = { ...leased, keySuffix: "}|fw/86400/other" };
    ask({ limit: other });
    ask({ limit: other });
    expect(leftBehind(other)).toBe(98);
  });

  test("goes back when the process ends", async () => {
    ask({ limit: leased });
    ask({ limit: leased });
    await store.close();
    expect(leftBehind(leased)).toBe(98);
  });

  test("is not asked for while the bucket is over", () => {
    ask({ limit: leased, cost: 100 });
    ask({ limit: leased });
    const asked = behind.seen.length;
    ask({ limit: leased });
    expect(behind.seen).toHaveLength(asked + 1);
  });
});
