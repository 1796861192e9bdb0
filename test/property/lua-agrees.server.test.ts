// The scripts on a real Redis answer as the TypeScript does, step by step.

import { beforeAll } from "vitest";
import { redisHarness } from "../contract/redis-harness.ts";
import type { StoreHarness } from "../contract/store-harness.ts";
import { RedisServer } from "../support/redis-server.ts";
import { describeAgreement } from "./agreement.ts";

let harness: StoreHarness;

beforeAll(async () => {
  harness = await redisHarness(await RedisServer.start());
}, 60_000);

describeAgreement(() => harness);
