// Stores on real servers, under a clock moved by hand.

import type { Store } from "../../src/engine/domain/store.ts";
import { copyQuestion, Mode, TakeGroup } from "../../src/engine/domain/take.ts";
import { costToReturn } from "../../src/engine/domain/verdict.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { openClusterStore } from "../../src/stores/redis/cluster-store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { closedWithTest } from "../support/ends.ts";
import { ManualClock } from "../support/manual-clock.ts";
import type { ClusterRig } from "../support/redis-cluster.ts";
import type { RedisServer } from "../support/redis-server.ts";
import { whenUp } from "../support/when-up.ts";
import { START_US, type StoreHarness } from "./store-harness.ts";

type RedisStoreOptions = Parameters<typeof openRedisStore>[0];

let harnesses = 0;

/** Options of a store as the contract needs them, with a key prefix of its own. */
export function contractOptions() {
  harnesses++;
  return {
    injectedTime: new ManualClock(START_US),
    // Nothing is measured here: a deadline that no busy machine reaches.
    deadlineMs: 10_000,
    keyPrefix: `t${harnesses}:`,
  };
}

/** A fresh store under a key prefix of its own, connected. */
export async function redisHarness(
  server: RedisServer,
  options: Partial<Omit<RedisStoreOptions, "target" | "injectedTime">> = {},
): Promise<StoreHarness> {
  const own = { ...contractOptions(), ...options };
  const store = await connected(openRedisStore({ ...own, target: server.target() }));
  return harnessOver(store, own.injectedTime, own.keyPrefix);
}

/** A store on a cluster, connected to all its nodes. */
export async function clusterHarness(rig: ClusterRig): Promise<StoreHarness> {
  const own = contractOptions();
  const store = await connected(openClusterStore({ ...own, target: rig.target() }));
  return harnessOver(store, own.injectedTime, own.keyPrefix);
}

/** The harness of a store that is connected. */
export function harnessOver(store: Store, clock: ManualClock, keyPrefix: string): StoreHarness {
  closedWithTest(store);
  const settle = async (group: TakeGroup) => {
    await new Promise<void>((resolve) => {
      if (store.take(group, { answered: () => resolve() })) resolve();
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
      // What is given back travels ahead of later takes of the same queue, a few at a time: one peek for each. What
      // was not paid has none, and a peek would date a bucket again whose time lies too far ahead.
      for (const take of group.takes.slice(0, group.size)) {
        if (!take.paid || costToReturn(take) === 0) continue;
        const peek = new TakeGroup();
        copyQuestion(take, peek).mode = Mode.peek;
        await settle(peek);
      }
    },
  };
}

async function connected<S extends SharedStore>(store: S): Promise<S> {
  if (!(await whenUp(store, 20_000))) throw new Error(store.trouble());
  return store;
}
