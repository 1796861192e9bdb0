// Many callers of several processes' stores on one key are granted burst + rate x time, never more and hardly less.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { groupOn, settle } from "../fault/store-rig.ts";
import { makeLimit } from "../support/builders.ts";
import { RedisServer } from "../support/redis-server.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await RedisServer.start();
});
afterAll(() => server.stop());

test("64 callers through three stores, burst 10 and 10 per second", async () => {
  const stores = [1, 2, 3].map(() => openRedisStore({ target: server.target(), deadlineMs: 5_000 }));
  await Promise.all(stores.map((store) => store.whenUp(5_000)));
  const limit = makeLimit({ amount: 10, burst: 10 });
  const endMs = performance.now() + 2_000;
  const paidAtUs: number[] = [];
  const caller = async (index: number) => {
    const store = stores[index % stores.length];
    while (store !== undefined && performance.now() < endMs) {
      const take = (await settle(store, groupOn("one", limit))).takes[0];
      if (take?.paid === true) paidAtUs.push(take.paidAtUs);
      await sleep(1); // a caller's pause
    }
  };
  await Promise.all(Array.from({ length: 64 }, (_, index) => caller(index)));
  await Promise.all(stores.map((store) => store.close()));
  const seconds = (Math.max(...paidAtUs) - Math.min(...paidAtUs)) / 1_000_000;
  expect(seconds).toBeGreaterThan(1.5);
  expect(paidAtUs.length).toBeLessThanOrEqual(10 + 10 * seconds);
  expect(paidAtUs.length).toBeGreaterThan(10 + 10 * seconds - 2);
});
