// The SQL functions on a real PostgreSQL answer as the TypeScript does, step by step.

import { afterAll, beforeAll } from "vitest";
import { postgresHarness } from "../contract/postgres-harness.ts";
import type { StoreHarness } from "../contract/store-harness.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { describeAgreement } from "./agreement.ts";

let server: PostgresServer;
let harness: StoreHarness;

beforeAll(async () => {
  server = await PostgresServer.start();
  harness = await postgresHarness(server);
}, 60_000);
afterAll(async () => {
  await harness.close();
  await server.stop();
});

describeAgreement(() => harness);
