// Redis killed, and Redis hanging, under load: every take is answered in time, none is paid after it was answered.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Verdict } from "../../src/core/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { RedisServer } from "../support/redis-server.ts";
import { whenUp } from "../support/when-up.ts";
import { groupOn, hangAndHeal, Load, openRig, settle, until } from "./store-rig.ts";

const DEADLINE_MS = 20;
/** A little: the timer's grain, and the turn in which sockets are read once more. */
const LITTLE_MS = 15;
const KEYS = 10;

let server: RedisServer;
beforeAll(async () => {
  server = await RedisServer.start();
});
afterAll(() => server.stop());

async function answersAgain(store: SharedStore): Promise<boolean> {
  return (await settle(store, groupOn("probe"))).verdict === Verdict.allowed;
}

/** What the buckets of the load hold, by key. */
async function debts(): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  for (let i = 0; i < KEYS; i++) {
    const text = await server.command("GET", `load:${i}`);
    if (text !== null) found.set(`load:${i}`, Number(String(text).split(" ")[0]) / 1_000_000);
  }
  return found;
}

test("a Redis that hangs for two seconds costs no call more than its deadline, and no bucket a call", async () => {
  const { store, reports } = await openRig({ target: server.target(), deadlineMs: DEADLINE_MS });
  const load = new Load(store, { perTick: 4, keys: KEYS });
  await sleep(300); // so that takes are under way when it stops
  server.pause();
  await sleep(2_000); // how long it hangs
  const failedWhilePaused = load.failed;
  server.resume();
  await until("it answers again", () => answersAgain(store));
  await sleep(300); // so that the load runs on what has healed
  await load.stop();

  expect(load.slowestMs).toBeLessThan(DEADLINE_MS + LITTLE_MS + load.loopLateMs);
  expect(failedWhilePaused).toBeGreaterThan(20);
  expect(load.allowed).toBeGreaterThan(0);
  expect(load.allowed + load.failed).toBe(load.sent);
  expect(reports.breakerStates.slice(0, 2)).toEqual(["open", "probing"]);
  expect(reports.breakerStates.at(-1)).toBe("closed");
  expect(reports.unknownGroups).toBe(0);
  // Takes that waited in the hanging server came too late to pay; at most the batch it was at when it stopped did.
  expect(reports.takesGivenBack).toBeLessThanOrEqual(8);
  expect(store.trouble()).toBeUndefined();
  // What came late and was paid is given back; then the buckets hold what was answered as paid, to the token.
  await until("the buckets hold what was answered as paid", async () => {
    const found = await debts();
    return [...load.paid].every(([key, paid]) => found.get(key) === paid);
  });
  await store.close();
});

test("a Redis that has hung is found well again by a process that gets no calls meanwhile", async () => {
  const { store, reports } = await openRig({ target: server.target(), deadlineMs: DEADLINE_MS });
  await hangAndHeal(server, store, reports);
  await store.close();
});

test("a killed Redis costs no call more than its deadline, and is found again", async () => {
  await server.flush();
  const { store, reports } = await openRig({ target: server.target(), deadlineMs: DEADLINE_MS });
  const load = new Load(store, { perTick: 4, keys: KEYS });
  await sleep(300); // so that takes are under way when it dies
  await server.kill();
  await sleep(1_000); // how long it is away
  const trouble = store.trouble();
  const failedWhileAway = load.failed;
  await server.restart();
  await until("it answers again", () => answersAgain(store));
  await sleep(200); // so that the load runs on what has healed
  await load.stop();

  expect(trouble).toContain(`Redis at 127.0.0.1:${server.port}`);
  expect(failedWhileAway).toBeGreaterThan(20);
  expect(load.slowestMs).toBeLessThan(DEADLINE_MS + LITTLE_MS + load.loopLateMs);
  expect(load.allowed + load.failed).toBe(load.sent);
  expect(reports.failures.length).toBeGreaterThanOrEqual(load.failed);
  expect(reports.breakerStates[0]).toBe("open");
  expect(reports.breakerStates.at(-1)).toBe("closed");
  expect(store.trouble()).toBeUndefined();
  await store.close();
});

test("a store started before its Redis waits for it and says so", async () => {
  await server.kill();
  const store = openRedisStore({ target: server.target() });
  const trouble = `Redis at 127.0.0.1:${server.port} refuses connections: nothing listens there`;
  await until("it says so", () => store.trouble() === trouble);
  expect((await settle(store, groupOn("early"))).failure?.code).toBe("STORE_UNREACHABLE");
  await server.restart();
  expect(await whenUp(store, 20_000)).toBe(true);
  expect(store.trouble()).toBeUndefined();
  expect(await answersAgain(store)).toBe(true);
  await store.close();
});

test("a closed store answers takes that are under way, then refuses", async () => {
  const { store } = await openRig({ target: server.target(), deadlineMs: 2_000 });
  const underWay = settle(store, groupOn("closing"));
  const closed = store.close();
  expect((await underWay).verdict).toBe(Verdict.allowed);
  await closed;
  expect((await settle(store, groupOn("closing"))).failure?.code).toBe("STORE_CLOSED");
});
