// The contract of stores and of the algorithms, held by the Redis store on a real server.

import { afterAll, beforeAll } from "vitest";
import { RedisServer } from "../support/redis-server.ts";
import { describeAlgorithmContract } from "./algorithm.contract.ts";
import { describeCalendarContract } from "./calendar.contract.ts";
import { describeCounterContract } from "./counter.contract.ts";
import { describeHoldsContract } from "./holds.contract.ts";
import { redisHarness } from "./redis-harness.ts";
import { describeStoreContract } from "./store.contract.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await RedisServer.start();
});
afterAll(() => server.stop());

describeStoreContract("Redis store", () => redisHarness(server));
describeHoldsContract("Redis store", () => redisHarness(server));
describeAlgorithmContract("Redis store", () => redisHarness(server));
describeCalendarContract("Redis store", () => redisHarness(server));
describeCounterContract("Redis store", () => redisHarness(server));
