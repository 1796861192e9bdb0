// Makes the tables and functions of sql/ in a database that has none, in one transaction. A schema belongs to one
// version of the files: another version is refused.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { PostgresConnection } from "./connect.ts";

/**
 * Files of sql/ in the order they are run: what a file uses comes before it. test/contract keeps the table and the
 * folder equal.
 */
export const SQL_FILES = [
  "tables.sql",
  "take_each.sql",
  "locked_takes.sql",
  "housekeeping.sql",
  "processes.sql",
  "runtime_limits.sql",
] as const;

// The same depth below the package's root in src/ and in dist/.
const SQL_FOLDER = new URL("../../../sql/", import.meta.url);

/** Any number that other programs in the database are not likely to lock. */
const ADVISORY_LOCK = "7267417832561041";

/** The schema is of another version. The message completes a sentence that begins with the server's name. */
export class SchemaError extends Error {
  override readonly name = "SchemaError";
}

/** Makes what is missing. Only looks if nothing is. */
export async function setUp(connection: PostgresConnection, schema: string): Promise<void> {
  const text = SQL_FILES.map((name) => readFileSync(new URL(name, SQL_FOLDER), "utf8")).join("\n");
  const version = createHash("sha256").update(text).digest("hex");
  if (await isSetUp(connection, version, schema)) return;
  try {
    await make(connection, text, version, schema);
  } catch (error) {
    await connection.query({ text: "ROLLBACK" });
    throw error;
  }
  // A process of another version may have been first.
  await isSetUp(connection, version, schema);
}

async function isSetUp(connection: PostgresConnection, version: string, schema: string): Promise<boolean> {
  const [found] = await connection.query({ text: "SELECT to_regclass($1)", values: [`"${schema}".version`] });
  if (found?.[0] == null) return false;
  const [row] = await connection.query({ text: `SELECT hash FROM "${schema}".version` });
  if (row?.[0] !== version) {
    throw new SchemaError(
      `has tables of another version in the schema ${schema}: set POSTGRES_SCHEMA to another name, or drop the schema`,
    );
  }
  return true;
}

/** Of processes that start at once, one makes all; the others wait for it. */
async function make(connection: PostgresConnection, text: string, version: string, schema: string): Promise<void> {
  const run = (statement: string, values: readonly string[] = []) => connection.query({ text: statement, values });
  await run("BEGIN ISOLATION LEVEL READ COMMITTED");
  const timeouts = { lock_timeout: "0", statement_timeout: "60s", idle_in_transaction_session_timeout: "60s" };
  for (const [name, value] of Object.entries(timeouts)) await run(`SET LOCAL ${name} = '${value}'`);
  await run(`SELECT pg_advisory_xact_lock(${ADVISORY_LOCK})`);
  await run(`CREATE SCHEMA IF NOT EXISTS "${schema}"`);
  const [found] = await run("SELECT to_regclass($1)", [`"${schema}".version`]);
  if (found?.[0] == null) {
    await run(`CREATE TABLE "${schema}".version (hash text NOT NULL)`);
    await run(text);
    await run(`INSERT INTO "${schema}".version VALUES ($1)`, [version]);
  }
  await run("COMMIT");
}
