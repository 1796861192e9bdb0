// Metrics of holds that Redis keeps.

import { afterAll, beforeAll } from "vitest";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { contractOptions } from "../contract/redis-harness.ts";
import { RedisServer } from "../support/redis-server.ts";
import { whenUp } from "../support/when-up.ts";
import { describeHoldMetrics } from "./hold-metrics.ts";

const options = contractOptions();
let server: RedisServer;
let store: SharedStore;

beforeAll(async () => {
  server = await RedisServer.start();
  store = openRedisStore({ ...options, target: server.target() });
  await whenUp(store, 20_000);
}, 60_000);
afterAll(async () => {
  await store.close();
  await server.stop();
});

describeHoldMetrics(() => ({ open: () => store, clock: options.injectedTime, keepsHolds: false }));
