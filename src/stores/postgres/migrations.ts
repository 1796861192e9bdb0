// The table of sql/ and how its files get into a database: in order, each file once, under a lock that all processes share.
// A released file never changes; a change is another file. test/contract keeps the table and the folder equal.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { isRefusal, isWorthRepeating, type PostgresConnection } from "./connect.ts";

/**
 * Files of sql/ in the order they are applied: what a file uses comes before it. A changed function gets a new name in a new
 * file, and the old file goes. Processes of the previous version still use the old function, and add their files to a database
 * that lacks them (test/integration/two-versions.test.ts).
 */
export const SQL_FILES = [
  "001_buckets.sql",
  "008_counter.sql",
  "015_refill.sql",
  "016_token_bucket.sql",
  "017_sliding_window.sql",
  "018_fixed_window.sql",
  "019_log_entries.sql",
  "020_sliding_log.sql",
  "021_calendar_window.sql",
  "022_read_buckets.sql",
  "023_step.sql",
  "026_write_buckets.sql",
  "029_words.sql",
  "030_holds.sql",
  "031_debt_lows.sql",
  "032_held_bucket.sql",
  "033_hold.sql",
  "034_take_all.sql",
  "035_sweep.sql",
  "037_take_each.sql",
  "038_beat.sql",
] as const;

// The same depth below the package's root in src/ and in dist/.
const SQL_FOLDER = new URL("../../../sql/", import.meta.url);

/** An arbitrary number, which must be the same in all versions of Headgate. */
const LOCK_NUMBER = "4838250123";
/** Most attempts on databases without this lock (YugabyteDB), where processes that start at once conflict. */
const ATTEMPTS_MAX = 10;
const UNLOGGED = "u";
/** Tables that a crash may empty together, if `unlogged` says so. */
const BUCKET_TABLES = ["bucket", "log_entry", "hold", "settled_hold", "hold_book"] as const;

/** The database has migrations of another version. The message completes a sentence that begins with the server's name. */
export class MigrationError extends Error {
  override readonly name = "MigrationError";
}

export interface MigrationOptions {
  readonly schema: string;
  /** Whether the buckets' tables are left out of the server's write-ahead log; undefined leaves them as they are. */
  readonly unlogged: boolean | undefined;
}

interface Migration {
  readonly number: number;
  readonly name: string;
  readonly text: string;
  readonly hash: string;
}

/** Reads the files. Throws when one is missing: the package is broken then. */
function loadMigrations(): Migration[] {
  return SQL_FILES.map((name) => {
    const text = readFileSync(new URL(name, SQL_FOLDER), "utf8");
    const hash = createHash("sha256").update(text).digest("hex");
    return { number: Number(name.slice(0, 3)), name, text, hash };
  });
}

/** Brings the schema up to date. Looks first, and takes the lock only if there is something to do. */
export async function migrate(connection: PostgresConnection, options: MigrationOptions): Promise<void> {
  const migrations = loadMigrations();
  let hasLock = true;
  for (let attempt = 1; await hasWork(connection, migrations, options); attempt++) {
    try {
      await applyAll(connection, migrations, options, hasLock);
    } catch (error) {
      await connection.query({ text: "ROLLBACK" });
      // YugabyteDB has no advisory locks before 2025.1: there every process runs the files, which can all be run twice.
      if (isRefusal(error) && error.code === "0A000" && hasLock) hasLock = false;
      else if (attempt === ATTEMPTS_MAX || !isRace(error)) throw error;
    }
  }
}

// 42P06, 42P07 and 42710: another process created the same object at the same time.
function isRace(error: unknown): boolean {
  return isWorthRepeating(error) || (isRefusal(error) && /^(42P0[67]|42710)$/.test(error.code ?? ""));
}

async function hasWork(
  connection: PostgresConnection,
  migrations: readonly Migration[],
  { schema, unlogged }: MigrationOptions,
): Promise<boolean> {
  const table = `"${schema}".migration`;
  const [found] = await connection.query({ text: "SELECT to_regclass($1)", values: [table] });
  if (found?.[0] == null) return true;
  const applied = new Map((await connection.query({ text: `SELECT number, hash FROM ${table}` })).map(asEntry));
  const changed = migrations.find(({ number, hash }) => (applied.get(String(number)) ?? hash) !== hash);
  if (changed !== undefined) {
    throw new MigrationError(`holds tables or functions of another version: ${changed.name} is not what it was`);
  }
  if (migrations.some(({ number }) => !applied.has(String(number)))) return true;
  return (await wronglyLogged(connection, schema, unlogged)).length > 0;
}

async function applyAll(
  connection: PostgresConnection,
  migrations: readonly Migration[],
  { schema, unlogged }: MigrationOptions,
  hasLock: boolean,
): Promise<void> {
  const table = `"${schema}".migration`;
  const run = (text: string, values: readonly string[] = []) => connection.query({ text, values });
  // Another process's migration may keep the lock for longer than a take may wait.
  await run("BEGIN ISOLATION LEVEL READ COMMITTED");
  await run("SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '60s', true)");
  if (hasLock) await run(`SELECT pg_advisory_xact_lock(${LOCK_NUMBER})`);
  await run(`CREATE SCHEMA IF NOT EXISTS "${schema}"`);
  await run(`CREATE TABLE IF NOT EXISTS ${table}
    (number int PRIMARY KEY, name text NOT NULL, hash text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`);
  const applied = new Map((await run(`SELECT number, hash FROM ${table}`)).map(asEntry));
  for (const { number, name, text, hash } of migrations) {
    if (applied.has(String(number))) continue;
    await run(text);
    await run(`INSERT INTO ${table} (number, name, hash) VALUES ($1, $2, $3)`, [String(number), name, hash]);
  }
  for (const { name, isLogged } of await wronglyLogged(connection, schema, unlogged))
    await run(`ALTER TABLE ${name} SET ${isLogged ? "UNLOGGED" : "LOGGED"}`);
  await run("COMMIT");
}

/** Tables of buckets that are not logged as `unlogged` says; if that is undefined, not logged as the table `bucket` is. */
async function wronglyLogged(
  connection: PostgresConnection,
  schema: string,
  unlogged: boolean | undefined,
): Promise<{ name: string; isLogged: boolean }[]> {
  const text = `SELECT c.relname, c.relpersistence FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = ANY ($2::text[])`;
  const rows = await connection.query({ text, values: [schema, `{${BUCKET_TABLES.join()}}`] });
  const found = rows.map(([name, persistence]) => ({ name: name ?? "", isLogged: persistence !== UNLOGGED }));
  const wanted = unlogged === undefined ? found.find(({ name }) => name === "bucket")?.isLogged : !unlogged;
  return found.filter(({ isLogged }) => isLogged !== wanted);
}

function asEntry(row: readonly (string | null)[]): readonly [string, string] {
  return [row[0] ?? "", row[1] ?? ""];
}
