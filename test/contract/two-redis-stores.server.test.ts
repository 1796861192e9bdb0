// The contract of stores, held by two Redis servers that share the limits between them. Each of them is one Redis, which keeps the other
// contracts.

import { afterAll, beforeAll } from "vitest";
import { RedisServer } from "../support/redis-server.ts";
import { twoRedisHarness } from "./redis-harness.ts";
import { describeStoreContract } from "./store.contract.ts";

let servers: [RedisServer, RedisServer];
beforeAll(async () => {
  servers = [await RedisServer.start(), await RedisServer.start()];
});
afterAll(() => Promise.all(servers.map((server) => server.stop())));

describeStoreContract("two Redis stores", () => twoRedisHarness(servers));
