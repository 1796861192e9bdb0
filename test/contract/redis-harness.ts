// The Redis store over a real server, under a clock moved by hand.

import type { TakeGroup } from "../../src/core/take.ts";
import { openRedisStore, type RedisStoreOptions } from "../../src/stores/redis/redis-store.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import type { RedisServer } from "../support/redis-server.ts";
import { groupOf, START_US, type StoreHarness } from "./store-harness.ts";

let harnesses = 0;

/** A fresh store under a key prefix of its own, connected. */
export async function redisHarness(
  server: RedisServer,
  options: Omit<RedisStoreOptions, "target" | "injectedTime"> = {},
): Promise<StoreHarness> {
  const clock = new ManualClock(START_US);
  harnesses++;
  const keyPrefix = `t${harnesses}:`;
  // Nothing is measured here: a deadline that no busy machine reaches.
  const store = openRedisStore({
    target: server.target(),
    injectedTime: clock,
    deadlineMs: 10_000,
    keyPrefix,
    ...options,
  });
  if (!(await store.whenUp(5_000))) throw new Error(store.trouble());
  const settle = async (group: TakeGroup) => {
    await new Promise<void>((resolve) => {
      if (store.take(group, { settled: () => resolve() })) resolve();
    });
    if (group.failure !== undefined) throw group.failure;
  };
  return {
    store,
    keyPrefix,
    nowUs: () => clock.nowUs(),
    setUs: (nowUs) => clock.setUs(nowUs),
    settle,
    giveBack: async (group) => {
      store.giveBack(group);
      // Receipts travel ahead of the takes of the same turn.
      await settle(groupOf([{ limit: makeLimit(), identity: "giving-back" }], keyPrefix));
    },
    close: () => store.close(),
  };
}
