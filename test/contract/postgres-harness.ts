// The PostgreSQL store over a real server, under a clock moved by hand.

import type { TakeGroup } from "../../src/engine/domain/take.ts";
import { openPostgresStore, type PostgresStoreOptions } from "../../src/stores/postgres/postgres-store.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import type { PostgresServer } from "../support/postgres-server.ts";
import { whenUp } from "../support/when-up.ts";
import { groupOf, START_US, type StoreHarness } from "./store-harness.ts";

let harnesses = 0;

/** A fresh store under a key prefix of its own, connected. */
export async function postgresHarness(
  server: PostgresServer,
  options: Omit<PostgresStoreOptions, "target" | "injectedTime"> = {},
): Promise<StoreHarness> {
  const clock = new ManualClock(START_US);
  harnesses++;
  const keyPrefix = `t${harnesses}:`;
  const store = openPostgresStore({
    target: server.target(),
    injectedTime: clock,
    // Nothing is measured here: a deadline that no busy machine reaches.
    deadlineMs: 10_000,
    // Time is moved to and fro, also by other tests of the same server: what looks expired may yet mean something.
    sweeps: false,
    connections: 1,
    keyPrefix,
    ...options,
  });
  if (!(await whenUp(store, 10_000))) throw new Error(store.trouble());
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
      // Receipts travel ahead of the takes of the same call, two on logs in each at most.
      for (let left = group.size; left > 0; left -= 2) {
        await settle(groupOf([{ limit: makeLimit(), identity: "giving-back" }], keyPrefix));
      }
    },
    close: () => store.close(),
  };
}
