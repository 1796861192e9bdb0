// Processes are counted and what has expired is dropped, however busy the connections of the takes are.

import { beforeAll, beforeEach, expect, test } from "vitest";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import { Verdict } from "../../src/engine/domain/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import type { PostgresBackend } from "../../src/stores/postgres/postgres-store.ts";
import { makeLimit } from "../support/builders.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { flush, openPostgresRig, sweep } from "./postgres-rig.ts";
import { groupOn, settle, until } from "./store-rig.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
  await (await openPostgresRig({ target: server.target(), deadlineMs: 1_000 })).store.close();
}, 60_000);
beforeEach(() => flush(server));

const count = async (from: string) => Number((await server.query(`SELECT count(*) FROM headgate.${from}`))[0]?.count);

/** Rows that mean nothing any more. */
async function insertDead(buckets: number): Promise<void> {
  await server.query(
    "INSERT INTO headgate.bucket SELECT 'dead ' || i, 1, 1, 1, 1 + i / 100 FROM generate_series(1, $1::int) i",
    [buckets],
  );
}

/** Keeps every connection of the store in use: each waits for a row that somebody else makes and does not commit. */
async function whileAllAreBusy<T>(
  store: SharedStore<PostgresBackend>,
  connections: number,
  work: () => Promise<T>,
): Promise<T> {
  await server.query("BEGIN");
  try {
    await server.query("INSERT INTO headgate.bucket VALUES ('held', 1, 1, 1, 1)");
    const answers: Promise<unknown>[] = [];
    for (let i = 0; i < connections; i++) {
      answers.push(settle(store, groupOn("held")));
      await until("one more call waits", async () => (await waiting()) > i);
    }
    const result = await work();
    expect(await waiting()).toBe(connections);
    await server.query("ROLLBACK");
    await Promise.all(answers);
    return result;
  } finally {
    await server.query("ROLLBACK");
  }
}

async function waiting(): Promise<number> {
  // Within a transaction a session that came after the first look is not seen: a connection may be late.
  await server.query("SELECT pg_stat_clear_snapshot()");
  const text = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'headgate' AND wait_event_type = 'Lock'";
  return Number((await server.query(text))[0]?.count);
}

// Promise(postgres): Processes are counted and rows swept even while all connections are busy.
test("a store whose connections are all busy reports itself and sweeps", async () => {
  const connections = 2;
  const options = { deadlineMs: 20_000, silenceMsMax: 60_000, connections, sweeps: false };
  const { store } = await openPostgresRig({ target: server.target(), ...options });
  store.processes.count();
  await until("it has reported itself", async () => (await count("runtime_process")) === 1);
  await insertDead(50);
  await whileAllAreBusy(store, connections, async () => {
    expect(await sweep(store)).toBe(50);
    const first = await seenAt();
    await until("it reports itself again", async () => (await seenAt()) > first);
  });
});

async function seenAt(): Promise<number> {
  const [row] = await server.query("SELECT extract(epoch FROM max(seen_at)) AS at FROM headgate.runtime_process");
  return Number(row?.at);
}

test("a turn of sweeping drops no more buckets and no more settled holds than it may", async () => {
  const { store } = await openPostgresRig({ target: server.target(), deadlineMs: 5_000, sweeps: false });
  await insertDead(1_200);
  await server.query("INSERT INTO headgate.settled_hold SELECT 'dead ' || i, i FROM generate_series(1, 700) i");
  const turns: number[] = [];
  for (let turn = 0; turn < 4; turn++) turns.push(await sweep(store));
  expect(turns).toEqual([1_700, 200, 0, 0]);
});

// Promise(postgres): The sweep keeps pace with takes in bounded turns, and nobody waits for it.
test("sweeping keeps pace with takes of ever new buckets", async () => {
  const second = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 10, windowSeconds: 1 });
  const { store } = await openPostgresRig({ target: server.target(), deadlineMs: 10_000 });
  const dead = 20_000;
  await insertDead(dead);
  let isOver = false;
  let made = 0;
  const callers = Array.from({ length: 200 }, async (_, caller) => {
    for (let i = 0; !isOver; i++) {
      const { verdict } = await settle(store, groupOn(`new ${caller} ${i}`, second));
      if (verdict === Verdict.allowed) made++;
    }
  });
  // Buckets that are made now expire some 17 s later: these stand for those made 17 s ago.
  const left = () => count("bucket WHERE bucket_key LIKE 'dead%'");
  await until("the first turn is over, a second after the start", async () => (await left()) < dead);
  const madeBefore = made;
  await until("all that was dead is gone", async () => (await left()) === 0);
  const madeMeanwhile = made - madeBefore;
  isOver = true;
  await Promise.all(callers);
  expect(madeBefore).toBeGreaterThan(0);
  // Its first turns are small, and a busy machine gives it less than its share: one that starves would let through many times as many.
  expect(madeMeanwhile).toBeLessThan(2 * dead);
});
