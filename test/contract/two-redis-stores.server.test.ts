// The contract of stores and of the algorithms, held by two Redis servers that share the limits between them.

import { afterAll, beforeAll } from "vitest";
import { RedisServer } from "../support/redis-server.ts";
import { describeAlgorithmContract } from "./algorithm.contract.ts";
import { describeHoldsContract } from "./holds.contract.ts";
import { twoRedisHarness } from "./redis-harness.ts";
import { describeStoreContract } from "./store.contract.ts";

let servers: [RedisServer, RedisServer];
beforeAll(async () => {
  servers = [await RedisServer.start(), await RedisServer.start()];
});
afterAll(() => Promise.all(servers.map((server) => server.stop())));

describeStoreContract("two Redis stores", () => twoRedisHarness(servers));
describeHoldsContract("two Redis stores", () => twoRedisHarness(servers));
describeAlgorithmContract("two Redis stores", () => twoRedisHarness(servers));
