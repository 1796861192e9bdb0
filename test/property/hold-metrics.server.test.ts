// Metrics of holds that Redis and PostgreSQL keep.

import { afterAll, beforeAll, describe } from "vitest";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { contractOptions } from "../contract/redis-harness.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { RedisServer } from "../support/redis-server.ts";
import { whenUp } from "../support/when-up.ts";
import { describeHoldMetrics } from "./hold-metrics.ts";

const options = contractOptions();

describe.each([
  {
    name: "Redis",
    start: async () => {
      const server = await RedisServer.start();
      return { server, store: openRedisStore({ ...options, target: server.target() }) };
    },
  },
  {
    name: "PostgreSQL",
    start: async () => {
      const server = await PostgresServer.start();
      return { server, store: openPostgresStore({ ...options, target: server.target(), sweeps: false }) };
    },
  },
])("$name", ({ start }) => {
  let server: RedisServer | PostgresServer;
  let store: SharedStore;

  beforeAll(async () => {
    ({ server, store } = await start());
    await whenUp(store, 20_000);
  }, 60_000);
  afterAll(async () => {
    await store.close();
    await server.stop();
  });

  describeHoldMetrics(() => ({ open: () => store, clock: options.injectedTime, keepsHolds: false }));
});
