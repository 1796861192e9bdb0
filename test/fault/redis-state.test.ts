// Redis loses its scripts, its data or its memory, or somebody writes into our keys: answered, counted, healed.

import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { Verdict } from "../../src/engine/domain/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { makeLimit } from "../support/builders.ts";
import { closedWithTest } from "../support/ends.ts";
import { RedisServer } from "../support/redis-server.ts";
import { whenUp } from "../support/when-up.ts";
import { groupOn, Load, ledgerOn, openRig, type Reports, settle, until } from "./store-rig.ts";

let server: RedisServer;
let store: SharedStore;
let reports: Reports;

beforeAll(async () => {
  server = await RedisServer.start();
});
beforeEach(async () => {
  await server.flush();
  // Nothing here is about time: a deadline that no busy machine reaches.
  ({ store, reports } = await openRig({ target: server.target(), deadlineMs: 5_000 }));
});

// Promise(redis): `SCRIPT FLUSH` under load loses no call and no payment.
test("scripts flushed under load are loaded again, and every take is paid once", async () => {
  const load = new Load(store, { perTick: 4, keys: 1 });
  for (let i = 0; i < 5; i++) {
    await sleep(40); // so that takes are under way at each flush
    await server.command("SCRIPT", "FLUSH");
  }
  await load.stop();
  expect(load.failed).toBe(0);
  expect(await ledgerOn(server, "load:0")).toBe(load.sent);
});

test("a key overwritten by others is counted and replaced, and its neighbours are answered", async () => {
  const limit = makeLimit({ amount: 10, windowSeconds: 60 });
  await settle(store, groupOn("k", limit, 9));
  await server.command("DEL", "k");
  await server.command("HSET", "k", "a", "b");
  const [damaged, neighbour] = await Promise.all([
    settle(store, groupOn("k", limit, 4)),
    settle(store, groupOn("neighbour", limit, 4)),
  ]);
  expect(damaged.takes[0]).toMatchObject({ paid: true, remaining: 6 });
  expect(neighbour.takes[0]).toMatchObject({ paid: true, remaining: 6 });
  expect(reports.damagedBuckets).toBe(1);
  expect(reports.failures).toEqual([]);
});

// Promise(redis): A process that starts while Redis refuses writes is ready soon after Redis accepts them, even without calls.
test("a Redis that is full refuses writes: counted and said; refusals are still answered, and it heals", async () => {
  const limit = makeLimit({ amount: 10, windowSeconds: 3_600 });
  await settle(store, groupOn("full", limit, 10));
  await server.command("CONFIG", "SET", "maxmemory", "1");
  const paying = await settle(store, groupOn("k", limit));
  expect(paying.failure).toMatchObject({ code: "STORE_COMMAND" });
  expect(paying.failure?.message).toBe(
    `Redis at 127.0.0.1:${server.port} has reached its maxmemory and refuses writes`,
  );
  expect(store.trouble()).toBe(paying.failure?.message);
  expect((await settle(store, groupOn("full", limit, 1))).verdict).toBe(Verdict.refused);

  const late = closedWithTest(openRedisStore({ target: server.target(), deadlineMs: 1_000 }));
  await until("the late one is told, too", () => late.trouble() === paying.failure?.message);
  await server.command("CONFIG", "SET", "maxmemory", "0");
  // Without a take: a process that is not ready for it would get none.
  await until("the late one finds out by itself", () => late.trouble() === undefined);
  for (const each of [store, late]) {
    expect((await settle(each, groupOn("k", limit))).verdict).toBe(Verdict.allowed);
    expect(each.trouble()).toBeUndefined();
  }
});

test("a primary that becomes a replica is left and asked again", async () => {
  await server.command("REPLICAOF", "127.0.0.1", "1");
  expect((await settle(store, groupOn("k"))).failure).toMatchObject({ code: "STORE_COMMAND" });
  expect(store.trouble()).toBe(`Redis at 127.0.0.1:${server.port} is a read-only replica`);
  await server.command("REPLICAOF", "NO", "ONE");
  expect(await whenUp(store, 20_000)).toBe(true);
  expect((await settle(store, groupOn("k"))).verdict).toBe(Verdict.allowed);
});

test("keys of all bytes reach Redis as those bytes", async () => {
  const bytes = Buffer.from("prefix:Jürgen/\u65e5\u672c", "utf8");
  await settle(store, groupOn(bytes.toString("latin1")));
  expect(await server.command("EXISTS", bytes)).toBe(1);
});

test("processes that share a Redis count each other, and one that closes is gone at once", async () => {
  const { store: second } = await openRig({ target: server.target(), deadlineMs: 1_000 });
  expect([store, second].map(({ processes }) => processes.count())).toEqual([1, 1]);
  await sleep(50); // the first beat
  const { store: third } = await openRig({ target: server.target(), deadlineMs: 1_000 });
  third.processes.count();
  await sleep(50); // the third one's first beat
  expect(third.processes.count()).toBe(3);
  expect(await server.command("HLEN", "{headgate:limits}:processes")).toBe(3);
  // A Redis that is full evicts what has a lifetime.
  expect(await server.command("PTTL", "{headgate:limits}:processes")).toBe(-1);
  await second.close();
  await third.close();
  expect(await server.command("HLEN", "{headgate:limits}:processes")).toBe(1);
});
