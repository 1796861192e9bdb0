// The SQL functions on a real PostgreSQL answer as the TypeScript does, step by step.

import { beforeAll } from "vitest";
import { postgresHarness } from "../contract/postgres-harness.ts";
import type { StoreHarness } from "../contract/store-harness.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { describeAgreement } from "./agreement.ts";

let harness: StoreHarness;

beforeAll(async () => {
  harness = await postgresHarness(await PostgresServer.start());
}, 60_000);

describeAgreement(() => harness);
