// Metrics of holds that Redis and PostgreSQL keep.

import { beforeAll, describe } from "vitest";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { contractOptions } from "../contract/redis-harness.ts";
import { closedWithTest } from "../support/ends.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { RedisServer } from "../support/redis-server.ts";
import { whenUp } from "../support/when-up.ts";
import { describeHoldMetrics } from "./hold-metrics.ts";

const options = contractOptions();

describe.each([
  {
    name: "Redis",
    open: async () => openRedisStore({ ...options, target: (await RedisServer.start()).target() }),
  },
  {
    name: "PostgreSQL",
    open: async () => openPostgresStore({ ...options, target: (await PostgresServer.start()).target(), sweeps: false }),
  },
])("$name", ({ open }) => {
  let store: SharedStore;

  beforeAll(async () => {
    store = closedWithTest<SharedStore>(await open());
    await whenUp(store, 20_000);
  }, 60_000);

  describeHoldMetrics(() => ({ open: () => store, clock: options.injectedTime, keepsHolds: false }));
});
