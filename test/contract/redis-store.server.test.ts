// The contract of stores and of the algorithms, held by the Redis store on a real server.

import { beforeAll } from "vitest";
import { RedisServer } from "../support/redis-server.ts";
import { describeEveryContract } from "./every.contract.ts";
import { redisHarness } from "./redis-harness.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await RedisServer.start();
});

describeEveryContract("Redis store", () => redisHarness(server));
