// Plain takes wait for rows, a little: what comes of it when others hold these rows, or pay the same buckets all the time.

import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { SystemClock } from "../../src/base/clock.ts";
import { Verdict } from "../../src/engine/domain/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { debts, flush, openPostgresRig } from "./postgres-rig.ts";
import { groupOn, LEDGER, settle } from "./store-rig.ts";

/** Plain takes wait for a twelfth of it. */
const DEADLINE_MS = 12_000;
const STORES = 3;
const KEYS = 12;
const CALLS = 600;

let server: PostgresServer;
let rigs: Awaited<ReturnType<typeof openPostgresRig>>[];
beforeAll(async () => {
  server = await PostgresServer.start();
}, 60_000);
beforeEach(async () => {
  const options = { target: server.target(), deadlineMs: DEADLINE_MS, sweeps: false } as const;
  rigs = await Promise.all(Array.from({ length: STORES }, () => openPostgresRig(options)));
  await flush(server);
});

// Promise(postgres): A take whose deadline passes while it waits for a row is not paid.
test("a take that became too late while its row was waited for is not paid, its neighbours are, once", async () => {
  const [{ store, reports }] = rigs as [(typeof rigs)[number]];
  for (const key of ["held", "free"]) await settle(store, groupOn(key));
  await server.query("BEGIN");
  await server.query("SELECT FROM headgate.bucket WHERE bucket_key = 'held' FOR UPDATE");
  const late = groupOn("held", LEDGER, 100);
  late.deadlineUs = new SystemClock().nowUs() + 300_000;
  const others = ["held", "free", "new"].map((key) => settle(store, groupOn(key, LEDGER, 10)));
  const first = settle(store, late);
  await sleep(400); // well above its deadline, well below what is waited for
  await server.query("ROLLBACK");
  expect((await first).failure?.code).toBe("STORE_TIMEOUT");
  for (const { verdict } of await Promise.all(others)) expect(verdict).toBe(Verdict.allowed);
  const owed = await debts(server);
  expect(["held", "free", "new"].map((key) => owed.get(key))).toEqual([11, 11, 10]);
  // Not even to be given back.
  expect(reports.takesGivenBack).toBe(0);
  expect(reports.repeats).toBeGreaterThan(0);
});

// Promise(postgres): Processes that pay the same buckets pay each call once.
// Promise(postgres): Rows that many calls want at once are waited for.
test("stores that pay the same buckets all the time, alone and two at once, pay every call that passed, once", async () => {
  const paid = new Map<string, number>();
  let calls = 0;
  const caller = async (store: SharedStore, number: number) => {
    for (let i = number; calls++ < CALLS; i += 5) {
      const keys = i % 4 === 0 ? [`key ${i % KEYS}`, `key ${(i + 7) % KEYS}`] : [`key ${i % KEYS}`];
      const cost = 1 + (i % 3);
      expect((await settle(store, groupOn(keys, LEDGER, cost))).verdict).toBe(Verdict.allowed);
      for (const key of keys) paid.set(key, (paid.get(key) ?? 0) + cost);
    }
  };
  await Promise.all(Array.from({ length: 30 }, (_, n) => caller((rigs[n % STORES] as (typeof rigs)[number]).store, n)));
  expect(await debts(server)).toEqual(paid);
});
