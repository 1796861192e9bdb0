// Rows with nonsense in them, rows that others hold, tables that go, a server that takes no writes: answered, counted, healed.

import { beforeAll, beforeEach, expect, test } from "vitest";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import { Verdict } from "../../src/engine/domain/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import type { PostgresBackend } from "../../src/stores/postgres/postgres-store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { makeLimit } from "../support/builders.ts";
import { closedWithTest } from "../support/ends.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { areUp, debts, flush, openPostgresRig, sweep } from "./postgres-rig.ts";
import { groupOn, LEDGER, type Reports, settle, until } from "./store-rig.ts";

const SECOND_US = 1_000_000;
const perMinute = makeLimit({ algorithm: Algorithm.slidingWindow, amount: 10, windowSeconds: 60 });
const log = makeLimit({ algorithm: Algorithm.slidingLog, amount: 10, windowSeconds: 60 });

let server: PostgresServer;
let store: SharedStore<PostgresBackend>;
let reports: Reports;
// Nothing here is about time: a deadline that no busy machine reaches.
const patient = { deadlineMs: 5_000, sweeps: false, connections: 4 } as const;

beforeAll(async () => {
  server = await PostgresServer.start();
}, 60_000);
beforeEach(async () => {
  ({ store, reports } = await openPostgresRig({ target: server.target(), ...patient }));
  await flush(server);
});

/** Does something while somebody else holds the row of that bucket. */
async function whileHeld<T>(key: string, work: () => Promise<T>): Promise<T> {
  await server.query("BEGIN");
  try {
    await server.query("SELECT FROM headgate.bucket WHERE bucket_key = $1 FOR UPDATE", [key]);
    return await work();
  } finally {
    await server.query("ROLLBACK");
  }
}

test.each([
  { what: "a negative debt", limit: makeLimit({ amount: 10, windowSeconds: 60 }), change: "used = -5" },
  { what: "an invalid time", limit: makeLimit({ amount: 10, windowSeconds: 60 }), change: "at_us = -1" },
  { what: "a window that begins anywhere", limit: perMinute, change: "at_us = at_us + 1" },
  { what: "a count that none can reach", limit: perMinute, change: "previous = 4294967296" },
  { what: "a log whose payments are gone", limit: log, change: "used = 9, packed = NULL" },
  { what: "a log with an invalid payment", limit: log, change: "packed = packed || ',5'" },
])("a row with $what is counted and replaced, and its neighbours are answered", async ({ limit, change }) => {
  await settle(store, groupOn("k", limit, 9));
  await server.query(`UPDATE headgate.bucket SET ${change}`);
  const [damaged, neighbour] = await Promise.all([
    settle(store, groupOn("k", limit, 4)),
    settle(store, groupOn("neighbour", limit, 4)),
  ]);
  expect(damaged.takes[0]).toMatchObject({ paid: true, remaining: 6 });
  expect(neighbour.takes[0]).toMatchObject({ paid: true, remaining: 6 });
  expect(reports.damagedBuckets).toBe(1);
  expect(reports.failures).toEqual([]);
  expect((await settle(store, groupOn("k", limit, 7))).verdict).toBe(Verdict.refused);
});

test("tables that are dropped are made again", async () => {
  // One that comes up afterwards would make them before the first take.
  await until("all connections are up", () => areUp(server, patient.connections + 1));
  await server.query("DROP SCHEMA headgate CASCADE");
  expect((await settle(store, groupOn("k"))).failure?.code).toBe("STORE_COMMAND");
  await until("it answers", async () => (await settle(store, groupOn("k"))).verdict === Verdict.allowed);
  await until("all is well", () => store.trouble() === undefined);
});

// Promise(outages): Calls that stay in conflict fail alone: the breaker stays closed, and other calls are answered.
test("calls that are in conflict with others again and again fail alone", async () => {
  await server.query(`CREATE FUNCTION headgate.conflict() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'conflict' USING ERRCODE = 'serialization_failure'; END $$`);
  await server.query(`CREATE TRIGGER conflict BEFORE INSERT ON headgate.bucket
    FOR EACH ROW WHEN (NEW.bucket_key = 'k') EXECUTE FUNCTION headgate.conflict()`);
  try {
    const calls = await Promise.all(Array.from({ length: 50 }, () => settle(store, groupOn("k"))));
    expect(new Set(calls.map(({ failure }) => failure?.code))).toEqual(new Set(["STORE_COMMAND"]));
    expect([reports.breakerStates, store.trouble()]).toEqual([[], undefined]);
    expect((await settle(store, groupOn("other"))).verdict).toBe(Verdict.allowed);
  } finally {
    await server.query("DROP FUNCTION headgate.conflict CASCADE");
  }
});

test("a server that takes no writes is named, and found again when it does", async () => {
  const setReadOnly = async (value: string) => {
    await server.query("SET default_transaction_read_only = off");
    await server.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
    await server.query("SELECT pg_reload_conf()");
  };
  await setReadOnly("on");
  try {
    await until("a take is refused", async () => {
      return (await settle(store, groupOn("k"))).failure?.code === "STORE_COMMAND";
    });
    await until("it says so", async () => {
      // A connection that comes up late, from before, knows nothing of it until it is asked.
      await settle(store, groupOn("k"));
      return (
        store.trouble() ===
        `PostgreSQL at 127.0.0.1:${server.port} is read-only: a standby, or default_transaction_read_only is on (25006)`
      );
    });
  } finally {
    await setReadOnly("off");
  }
  await until("it answers", async () => (await settle(store, groupOn("k"))).verdict === Verdict.allowed);
});

// Promise(postgres): Tables are made once, whichever process starts first.
test("processes that start at once on an empty database make the tables once", async () => {
  await server.query("DROP SCHEMA headgate CASCADE");
  const rigs = await Promise.all(
    Array.from({ length: 5 }, () => openPostgresRig({ target: server.target(), ...patient })),
  );
  expect(await server.query("SELECT count(*)::int AS count FROM headgate.version")).toEqual([{ count: 1 }]);
  for (const rig of rigs) expect((await settle(rig.store, groupOn("k"))).verdict).toBe(Verdict.allowed);
});

test("a schema of another version is left alone, and the trouble says what to do", async () => {
  await server.query("CREATE SCHEMA old");
  const { store: first } = await openPostgresRig({ target: server.target(), schema: "old", ...patient });
  await first.close();
  await server.query("UPDATE old.version SET hash = 'another'");
  const second = closedWithTest(openPostgresStore({ target: server.target(), schema: "old", ...patient }));
  await until("the first attempt has ended", () => second.trouble()?.includes("not connected yet") === false);
  expect(second.trouble()).toMatch(
    / has tables of another version in the schema old: set POSTGRES_SCHEMA to another name, or drop the schema$/,
  );
});

test("keys of all bytes and of any length have buckets of their own", async () => {
  const text = Buffer.from('J\u00fcrgen"\\{,}', "utf8").toString("latin1");
  const long = "x".repeat(5_000);
  for (const key of [text, `${long}1`, `${long}2`]) await settle(store, groupOn(key, LEDGER, key.length));
  const found = await debts(server);
  expect(found.get('J\\xc3\\xbcrgen"\\\\{,}')).toBe(text.length);
  expect([...found].filter(([key, debt]) => key.startsWith("\\#") && debt === 5_001)).toHaveLength(2);
});

// Promise(postgres): The sweep keeps pace with takes in bounded turns, and nobody waits for it.
test("expired buckets are dropped, those that somebody holds later", async () => {
  const clock = new ManualClock(Date.UTC(2026, 0, 1) * 1000);
  const { store: own } = await openPostgresRig({ target: server.target(), ...patient, injectedTime: clock });
  const hour = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 10, windowSeconds: 3_600 });
  for (const key of ["log 1", "log 2", "log 3"]) await settle(own, groupOn(key, log, 1));
  await settle(own, groupOn("long", hour, 1));
  expect(await sweep(own)).toBe(0);
  clock.setUs(clock.nowUs() + 80 * SECOND_US);
  expect(await whileHeld("log 2", () => sweep(own))).toBe(2);
  expect([...(await debts(server)).keys()].sort()).toEqual(["log 2", "long"]);
  expect(await sweep(own)).toBe(1);
  expect([...(await debts(server)).keys()]).toEqual(["long"]);
});

test("processes with another prefix of keys, which share no bucket, do not count each other", async () => {
  const open = async (keyPrefix: string) =>
    (await openPostgresRig({ target: server.target(), ...patient, keyPrefix })).store;
  const stores = await Promise.all(["", "a:", "a:b:", "a:"].map(open));
  for (const each of stores) each.processes.count();
  const counts = () => stores.map(({ processes }) => processes.count());
  await until("those with one prefix have found each other", () => counts().join() === "1,2,1,2");
});

test("processes that share a PostgreSQL count each other, and one that closes is gone at once", async () => {
  const options = { target: server.target(), ...patient };
  const { store: second } = await openPostgresRig(options);
  expect([store, second].map(({ processes }) => processes.count())).toEqual([1, 1]);
  const { store: third } = await openPostgresRig(options);
  third.processes.count();
  const count = async () => Number((await server.query("SELECT count(*) FROM headgate.runtime_process"))[0]?.count);
  await until("all have been heard of", async () => (await count()) === 3);
  await until("the third one knows", () => third.processes.count() === 3);
  await server.query(
    "INSERT INTO headgate.runtime_process VALUES ('', 'silent', '0 - ', now() - interval '11 seconds')",
  );
  await second.close();
  await third.close();
  await until("the others are gone", async () => (await count()) <= 2);
  await until("the silent one is forgotten", async () => (await count()) === 1);
});
