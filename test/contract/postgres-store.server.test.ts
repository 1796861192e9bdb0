// The contract of stores and of the algorithms, held by the PostgreSQL store on a real server.

import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { SQL_FILES } from "../../src/stores/postgres/schema.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { describeEveryContract } from "./every.contract.ts";
import { postgresHarness } from "./postgres-harness.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
}, 60_000);

describeEveryContract("PostgreSQL store", () => postgresHarness(server));

test("the table of SQL files is the folder sql/", () => {
  expect([...SQL_FILES].sort()).toEqual(readdirSync(resolve(import.meta.dirname, "../../sql")));
});
