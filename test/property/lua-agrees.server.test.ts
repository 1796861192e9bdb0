// The scripts on a real Redis answer as the TypeScript does, step by step.

import { afterAll, beforeAll } from "vitest";
import { redisHarness } from "../contract/redis-harness.ts";
import type { StoreHarness } from "../contract/store-harness.ts";
import { RedisServer } from "../support/redis-server.ts";
import { describeAgreement } from "./agreement.ts";

let server: RedisServer;
let harness: StoreHarness;

beforeAll(async () => {
  server = await RedisServer.start();
  harness = await redisHarness(server);
}, 60_000);
afterAll(async () => {
  await harness.close();
  await server.stop();
});

describeAgreement(() => harness);
