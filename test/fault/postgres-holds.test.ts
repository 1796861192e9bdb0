// Holds in PostgreSQL under what only happens there: many processes at once, rows that somebody else holds, what the sweep
// drops, nonsense in rows.

import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Algorithm, type Limit } from "../../src/engine/domain/limit.ts";
import type { Store } from "../../src/engine/domain/store.ts";
import { Mode, type TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { type Ask, groupOf } from "../contract/store-harness.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { flush, openPostgresRig, sweep } from "./postgres-rig.ts";
import { settle, until } from "./store-rig.ts";

const SECOND_US = 1_000_000;
const START_US = Date.UTC(2026, 0, 1) * 1000;
const TTL_SECONDS = 60;
const patient = { deadlineMs: 10_000, sweeps: false } as const;
const budget = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 50, windowSeconds: 86_400, holdSeconds: 3_600 });
const tokens = makeLimit({ amount: 1, burst: 1_000_000, windowSeconds: 86_400, holdSeconds: TTL_SECONDS });

function placesOf(places: number): Limit {
  return makeLimit({
    amount: 0,
    burst: places,
    windowSeconds: TTL_SECONDS,
    debtMax: places,
    holdSeconds: TTL_SECONDS,
    isConcurrent: true,
    keySuffix: "|concurrent",
  });
}

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
  await (await openPostgresRig({ target: server.target(), ...patient })).store.close();
}, 60_000);
beforeEach(() => flush(server));

const count = async (from: string) => Number((await server.query(`SELECT count(*) FROM headgate.${from}`))[0]?.count);

/** How many live holds the buckets have, of that id or of any. */
async function holds(id?: string): Promise<number> {
  const [row] = await server.query(
    `SELECT count(*) FROM headgate.bucket, json_array_elements(packed::json -> 1) hold
     WHERE $1::text IS NULL OR hold ->> 0 = $1`,
    [id ?? null],
  );
  return Number(row?.count);
}

/** How often calls have waited for each other in circles. A session tells when it ends. */
async function deadlocks(): Promise<number> {
  const text = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'headgate'";
  await until("all sessions have ended", async () => Number((await server.query(text))[0]?.count) === 0);
  const [row] = await server.query("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
  return Number(row?.deadlocks);
}

async function ask(store: Store, ...asks: readonly Ask[]): Promise<TakeGroup> {
  return await settle(store, groupOf(asks, ""));
}

/** Stores as so many processes would have them. */
async function openMany() {
  const options = { target: server.target(), ...patient } as const;
  return await Promise.all(Array.from({ length: 4 }, () => openPostgresRig(options)));
}

describe("200 callers at once", () => {
  // Promise(holds): Callers in two processes never overspend a budget, on every shared store.
  test("never get more of a budget and its places than there are, and what they settle is free again", async () => {
    const places = placesOf(30);
    const rigs = await openMany();
    const storeOf = (caller: number) => (rigs[caller % rigs.length] as (typeof rigs)[0]).store;
    // One that is in conflict with nobody.
    const { store: calm } = await openPostgresRig({ target: server.target(), ...patient });
    for (let round = 0; round < 3; round++) {
      const identity = `round ${round}`;
      const both = (mode: Mode, id: string): Ask[] => [
        { limit: budget, identity, mode, cost: mode === Mode.pay ? 2 : 1, holdId: id, descriptor: 0 },
        { limit: places, identity, mode, cost: 1, holdId: id, descriptor: 0 },
      ];
      let used = 0;
      for (let wave = 0; wave < 2; wave++) {
        const most = Math.min(30, Math.floor((50 - used) / 2));
        const ids = Array.from({ length: 200 }, (_, caller) => `${wave} ${caller}`);
        const groups = await Promise.all(ids.map((id, caller) => ask(storeOf(caller), ...both(Mode.pay, id))));
        const passed = ids.filter((_, caller) => groups[caller]?.verdict === Verdict.allowed);
        expect(passed).toHaveLength(most);
        for (const id of passed) {
          const ended = await ask(calm, ...both(Mode.settle, id));
          expect(ended.takes.slice(0, 2).map(({ held }) => held)).toEqual([2, 1]);
          // Half of what it held.
          used++;
        }
      }
      const [left, free] = (await ask(calm, ...both(Mode.peek, "look"))).takes;
      expect([left?.remaining, free?.remaining]).toEqual([50 - used, 30]);
      expect(used).toBeGreaterThan(0);
    }
    expect(await holds()).toBe(0);
  });
});

// Promise(postgres): Calls with holds on several buckets never deadlock.
test("processes that open the same holds of new buckets at once, in any order, do not wait for each other in circles", async () => {
  const before = await deadlocks();
  const rigs = await openMany();
  for (let round = 0; round < 30; round++) {
    const asks = ["a", "b", "c"].flatMap((name): Ask[] => [
      { limit: tokens, identity: `${round} ${name}`, cost: 3, holdId: "same" },
      { limit: placesOf(10), identity: `${round} ${name}`, holdId: "same" },
    ]);
    const groups = await Promise.all(
      rigs.map(({ store }, process) => ask(store, ...(process % 2 === 0 ? asks : asks.toReversed()))),
    );
    expect(groups.map(({ verdict, failure }) => failure?.code ?? verdict)).toEqual(rigs.map(() => Verdict.allowed));
  }
  // One hold of each budget has the id, of the places one does and three have none.
  expect(await holds("same")).toBe(30 * 6);
  expect(await holds()).toBe(30 * (3 + 3 * 4));
  for (const { store } of rigs) await store.close();
  expect(await deadlocks()).toBe(before);
});

describe("by a clock moved by hand", () => {
  const clock = new ManualClock(START_US);
  const open = async () => await openPostgresRig({ target: server.target(), ...patient, injectedTime: clock });
  beforeEach(() => clock.setUs(START_US));

  // Promise(postgres): The sweep deletes expired holds and the ids of settled ones on time, and never earlier.
  test("the sweep drops what has ended and what is forgotten, and nothing before", async () => {
    const { store } = await open();
    const places = placesOf(5);
    for (const [i, limit] of [tokens, places].entries()) {
      await ask(store, { limit, identity: "k", holdId: `live ${i}` });
      await ask(store, { limit, identity: "k", holdId: `settled ${i}` });
      await ask(store, { limit, identity: "k", mode: Mode.settle, cost: 1, holdId: `settled ${i}` });
    }
    const rows = async () => {
      return [await count("bucket WHERE bucket_key LIKE '%id=k%'"), await holds(), await count("settled_hold")];
    };
    expect(await rows()).toEqual([2, 2, 2]);
    clock.setUs(START_US + TTL_SECONDS * SECOND_US - 1);
    expect(await sweep(store)).toBe(0);
    // Rows of buckets expire up to 17 s late; that of the tokens when they are back, so its hold waits for its next call.
    clock.setUs(START_US + (TTL_SECONDS + 17) * SECOND_US);
    expect(await sweep(store)).toBe(3); // two that are forgotten, and the bucket of the places
    expect(await rows()).toEqual([1, 1, 0]);
    const { takes } = await ask(store, { limit: tokens, identity: "k", mode: Mode.peek });
    expect(takes[0]).toMatchObject({ remaining: 999_999, liveHolds: 0 });
    expect(await rows()).toEqual([1, 0, 0]);
    clock.setUs(START_US + 3 * 86_400 * SECOND_US);
    expect(await sweep(store)).toBe(1);
    expect(await rows()).toEqual([0, 0, 0]);
  });

  test("a bucket that is full is kept as long as it has holds", async () => {
    const { store } = await open();
    const second = makeLimit({
      algorithm: Algorithm.fixedWindow,
      amount: 9,
      windowSeconds: 1,
      holdSeconds: TTL_SECONDS,
    });
    await ask(store, { limit: second, holdId: "r1" });
    await ask(store, { limit: second, mode: Mode.refund, cost: 9 });
    clock.setUs(START_US + 40 * SECOND_US);
    expect(await sweep(store)).toBe(0);
    const settled = await ask(store, { limit: second, mode: Mode.settle, cost: 1, holdId: "r1" });
    expect(settled.takes[0]?.held).toBe(1);
  });

  // Promise(holds): No call ends more than 32 holds.
  test("one call ends 32 holds of all its buckets, the next ones the rest", async () => {
    const { store } = await open();
    const asks = ["a", "b"].map((identity) => ({ limit: tokens, identity, cost: 1 }));
    for (let i = 0; i < 25; i++) await ask(store, ...asks.map((one) => ({ ...one, holdId: `r${i}` })));
    clock.setUs(START_US + 2 * TTL_SECONDS * SECOND_US);
    const left: number[] = [];
    for (let call = 0; call < 3; call++) {
      await ask(store, ...asks.map((one) => ({ ...one, mode: Mode.peek })));
      left.push(await holds());
    }
    expect(left).toEqual([18, 0, 0]);
  });

  // Promise(postgres): A damaged row counts as a full bucket, and its holds still settle.
  test("a damaged row is counted and replaced, and its holds still settle", async () => {
    const { store, reports } = await open();
    await ask(store, { limit: tokens, cost: 10, holdId: "r1" });
    await ask(store, { limit: tokens, cost: 10, holdId: "ends" });
    await server.query("UPDATE headgate.bucket SET used = -5");
    const settled = await ask(store, { limit: tokens, mode: Mode.settle, cost: 4, holdId: "r1" });
    expect(settled.takes[0]).toMatchObject({ held: 10, remaining: 1_000_000 });
    expect(reports.damagedBuckets).toBe(1);
    await server.query("UPDATE headgate.bucket SET used = -5");
    clock.setUs(START_US + 2 * TTL_SECONDS * SECOND_US);
    const later = await ask(store, { limit: tokens, cost: 3, holdId: "r2" });
    expect(later.takes[0]).toMatchObject({ paid: true, remaining: 999_997 });
    expect(reports.damagedBuckets).toBe(2);
    expect(await holds()).toBe(1);
  });

  test("ids of all bytes are told apart", async () => {
    const { store } = await open();
    const ids = ["a", "A", "a ", "\u00e9", "\\xe9", "\u0000", '"', "{a,b}", "NULL", "+"];
    for (const [i, holdId] of ids.entries()) await ask(store, { limit: tokens, cost: i + 1, holdId });
    for (const [i, holdId] of ids.entries()) {
      const { takes } = await ask(store, { limit: tokens, mode: Mode.settle, cost: 0, holdId });
      expect([holdId, takes[0]?.held]).toEqual([holdId, i + 1]);
    }
  });
});
