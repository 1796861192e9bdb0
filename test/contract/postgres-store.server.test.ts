// The contract of stores, held by the PostgreSQL store on a real server; test/property/sql-agrees.server.test.ts compares its algorithms.

import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { SQL_FILES } from "../../src/stores/postgres/schema.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { describeComparedContract } from "./every.contract.ts";
import { postgresHarness } from "./postgres-harness.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
}, 60_000);

describeComparedContract("PostgreSQL store", () => postgresHarness(server));

test("the table of SQL files is the folder sql/", () => {
  expect([...SQL_FILES].sort()).toEqual(readdirSync(resolve(import.meta.dirname, "../../sql")));
});
