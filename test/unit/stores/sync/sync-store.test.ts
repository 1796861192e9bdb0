// Calls whose limits are counted partly in memory: settled all or nothing, also when the store is late, refuses or fails.
// The bounds of each way to share are kept in test/property.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/engine/base/errors.ts";
import { Algorithm, type Limit, Sync } from "../../../../src/engine/domain/limit.ts";
import { Kind, Mode, Outcome, Source, type TakeGroup, Verdict } from "../../../../src/engine/domain/take.ts";
import { DenialMemory } from "../../../../src/stores/denials/denial-memory.ts";
import { MemoryStore } from "../../../../src/stores/memory/memory-store.ts";
import { Leases } from "../../../../src/stores/sync/lease.ts";
import { Periodic } from "../../../../src/stores/sync/periodic.ts";
import { Share } from "../../../../src/stores/sync/share.ts";
import { SyncStore } from "../../../../src/stores/sync/sync-store.ts";
import { type Ask, groupOf, takeOf } from "../../../contract/store-harness.ts";
import { makeLimit } from "../../../support/builders.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";

const NOBODY = { settled: () => undefined };
const AWAY = new StoreError("STORE_UNREACHABLE", "away");
const DAY = { windowSeconds: 86_400 } as const;
const shared = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 10, ...DAY, name: "share", sync: Sync.share });
const leased = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 100, ...DAY, name: "lease", sync: Sync.lease });
const periodic = makeLimit({ amount: 10, burst: 10, ...DAY, name: "periodic", sync: Sync.periodic });
const exact = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 10, ...DAY, name: "exact" });

let clock: ManualClock;
let behind: ScriptedStore;
let processes = 1;
let leases: Leases;
let exchange: Periodic;
let store: SyncStore;
beforeEach(() => {
  clock = new ManualClock();
  behind = new ScriptedStore(clock);
  processes = 1;
  const processCount = () => processes;
  leases = new Leases({ store: behind, processCount, now: () => clock.nowUs() });
  exchange = new Periodic({ store: behind, periodMs: 100, now: () => clock.nowUs() });
  const share = new Share({ memory: new MemoryStore({ clock }), processCount, processIndex: () => processes - 1 });
  store = new SyncStore(behind, { clock, lease: leases, periodic: exchange, share });
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

describe("calls in parts", () => {
  test("ask the store nothing if no part of them is there", () => {
    expect(ask({ limit: shared, cost: 4 })).toMatchObject({
      verdict: Verdict.allowed,
      source: Source.leaseOrPeriodic,
    });
    expect(behind.seen).toEqual([]);
  });

  // Promise(hot): With `sync`, a refusal by the store puts the local part back.
  test("put the local part back when the store refuses", () => {
    ask({ limit: exact, cost: 10 });
    const group = ask({ limit: shared, cost: 4 }, { limit: exact });
    expect(group.verdict).toBe(Verdict.refused);
    expect(takeOf(group, 0)).toMatchObject({ outcome: Outcome.room, paid: false, remaining: 10 });
    expect(leftHere(shared)).toBe(10);
  });

  test("never give the store back what a share has paid, though the process has lost its part meanwhile", () => {
    ask({ limit: exact, cost: 10 });
    processes = 0;
    ask({ limit: shared, cost: 4 });
    processes = 1;
    behind.holdsBack = true;
    ask({ limit: shared, cost: 4 }, { limit: exact });
    behind.holdsBack = false;
    processes = 0;
    behind.release();
    expect(leftBehind(shared)).toBe(6);
  });

  test("leave the store's part unanswered when it fails, and can be given back", () => {
    behind.failure = AWAY;
    const group = ask({ limit: shared, cost: 4 }, { limit: exact });
    expect(group).toMatchObject({ verdict: Verdict.failed, failure: AWAY });
    expect(group.takes.map(({ outcome, paid }) => [outcome, paid])).toEqual([
      [Outcome.room, true],
      [Outcome.unanswered, false],
    ]);
    store.giveBack(group);
    expect(leftHere(shared)).toBe(10);
  });

  test("refuse although the store fails when the local part does", () => {
    ask({ limit: shared, cost: 10 });
    behind.failure = AWAY;
    expect(ask({ limit: shared }, { limit: exact })).toMatchObject({ verdict: Verdict.refused, failure: undefined });
  });

  test("pay none of a shadow descriptor of which one limit is over at the store", () => {
    ask({ limit: exact, cost: 10 });
    const group = ask(
      { limit: shared, descriptor: 0, kind: Kind.shadow },
      { limit: exact, descriptor: 0, kind: Kind.shadow },
    );
    expect(group.verdict).toBe(Verdict.allowed);
    expect(leftHere(shared)).toBe(10);
  });

  test.each([
    { name: "both are over", localOver: true, remoteOver: true, verdict: Verdict.refused },
    { name: "the local one has room", localOver: false, remoteOver: true, verdict: Verdict.allowed },
    { name: "the remote one has room", localOver: true, remoteOver: false, verdict: Verdict.allowed },
  ])("of quota descriptors in different places: $name", ({ localOver, remoteOver, verdict }) => {
    if (localOver) ask({ limit: shared, cost: 10 });
    if (remoteOver) ask({ limit: exact, cost: 10 });
    expect(ask({ limit: shared, kind: Kind.quota }, { limit: exact, kind: Kind.quota }).verdict).toBe(verdict);
  });
});

describe("periodic exchange grants no more than the store said", () => {
  /** Spends what is left in memory, one by one over some periods, and returns how much passed. */
  function spend(): number {
    let passed = 0;
    for (let i = 0; i < 40; i++) {
      clock.advanceMs(10);
      exchange.maintain(clock.nowUs());
      if (ask({ limit: periodic }).verdict === Verdict.allowed) passed++;
    }
    return passed;
  }

  // Promise(hot): With one process, periodic exchange grants no more than the limit.
  test("though a question was sent while it could not follow the bucket, and answered while it did", () => {
    exchange = new Periodic({ store: behind, periodMs: 100, now: () => clock.nowUs(), trackedMax: 1 });
    store = new SyncStore(behind, { clock, periodic: exchange });
    ask({ limit: periodic, identity: "another" });
    behind.holdsBack = true;
    ask({ limit: periodic, cost: 4 });
    behind.holdsBack = false;
    for (let i = 0; i < 5; i++) {
      clock.advanceMs(200);
      exchange.maintain(clock.nowUs());
    }
    expect(ask({ limit: periodic }).verdict).toBe(Verdict.allowed);
    behind.release();
    expect(4 + 1 + spend()).toBe(10);
  });
});

describe("late answers", () => {
  test("to a call that has been given up leave both places as they were, and its group alone", () => {
    behind.holdsBack = true;
    const group = ask({ limit: shared, cost: 4 }, { limit: exact, cost: 3 });
    group.reset();
    group.add(exact).cost = 9;
    behind.release();
    behind.holdsBack = false;
    expect(group).toMatchObject({ size: 1, verdict: Verdict.pending });
    expect([leftHere(shared), leftBehind(exact)]).toEqual([10, 10]);
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
      expect(group).toMatchObject({ verdict: Verdict.allowed, source: Source.leaseOrPeriodic });
      expect(takeOf(group, 0).remaining).toBe(97 - i);
    }
    expect(behind.seen).toHaveLength(asked);
    // A take, and a new lease.
    ask({ limit: leased });
    expect(behind.seen).toHaveLength(asked + 2);
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

  test("is put back for a call that the store refuses", () => {
    ask({ limit: leased });
    ask({ limit: leased });
    ask({ limit: exact, cost: 10 });
    ask({ limit: leased, cost: 5 }, { limit: exact });
    expect(takeOf(ask({ limit: leased, mode: Mode.peek }), 0).remaining).toBe(98);
  });
});

describe("periodic exchange", () => {
  const turn = (ms: number) => {
    clock.advanceMs(ms);
    exchange.maintain(clock.nowUs());
  };
  /** A bucket is asked about when it is taken from a second time; both takes are the store's. */
  const follow = () => {
    for (let i = 0; i < 2; i++) expect(ask({ limit: periodic }).source).toBe(Source.store);
  };

  test("decides in memory about a bucket that is taken from again, and reports once per period", () => {
    follow();
    for (let i = 0; i < 4; i++) expect(ask({ limit: periodic }).source).toBe(Source.leaseOrPeriodic);
    expect(leftBehind(periodic)).toBe(8);
    turn(100);
    expect(leftBehind(periodic)).toBe(4);
  });

  test("grants nothing on what a denial memory remembers", () => {
    const denials = new DenialMemory(behind, { clock, entriesMax: 16 });
    const part = new Periodic({ store: denials, periodMs: 100, now: () => clock.nowUs() });
    const remembering = new SyncStore(denials, { clock, periodic: part });
    const pay = (cost: number) => {
      const group = groupOf([{ limit: periodic, cost }], "");
      remembering.take(group, NOBODY);
      return group;
    };
    behind.take(groupOf([{ limit: periodic, cost: 5 }], ""), NOBODY);
    pay(6);
    clock.advanceMs(300);
    part.maintain(clock.nowUs());
    behind.take(groupOf([{ limit: periodic, cost: 5 }], ""), NOBODY);
    expect(pay(6)).toMatchObject({ verdict: Verdict.refused, source: Source.denialMemory });
    expect(pay(3).verdict).toBe(Verdict.refused);
    part.close(clock.nowUs());
  });

  test("reports anew what the store did not take", () => {
    follow();
    ask({ limit: periodic, cost: 3 });
    behind.failure = AWAY;
    turn(100);
    behind.failure = undefined;
    turn(100);
    expect(leftBehind(periodic)).toBe(5);
  });

  test("goes on through one period without an answer, and fails like any take after two", () => {
    follow();
    behind.holdsBack = true;
    turn(100);
    clock.advanceMs(99);
    expect(ask({ limit: periodic }).verdict).toBe(Verdict.allowed);
    behind.holdsBack = false;
    behind.failure = AWAY;
    clock.advanceMs(2);
    expect(ask({ limit: periodic })).toMatchObject({ verdict: Verdict.failed, failure: AWAY });
  });

  test("reports what is left when the process ends", async () => {
    follow();
    ask({ limit: periodic, cost: 3 });
    await store.close();
    expect(leftBehind(periodic)).toBe(5);
  });

  // Promise(hot): What was granted in a period survives a reload of rules.
  test("reports what was granted under rules that were read anew meanwhile", () => {
    follow();
    ask({ limit: periodic, cost: 3 });
    expect(ask({ limit: { ...periodic } }).source).toBe(Source.leaseOrPeriodic);
    ask({ limit: { ...periodic, amount: 9, burst: 9 } });
    turn(100);
    expect(leftBehind(periodic)).toBe(3);
  });

  test("tells how long a refused cost has to wait, by the microsecond for a token bucket", () => {
    ask({ limit: periodic, cost: 9 });
    ask({ limit: periodic });
    expect(takeOf(ask({ limit: periodic }), 0)).toMatchObject({ outcome: Outcome.over, waitUs: 8_640_000_000 });
    expect(takeOf(ask({ limit: periodic, cost: 11 }), 0)).toMatchObject({
      outcome: Outcome.never,
      waitUs: 0,
    });
  });
});

describe("share", () => {
  test("asks the store while this process has not been counted", () => {
    processes = 0;
    expect(ask({ limit: shared }).source).toBe(Source.store);
  });
});
