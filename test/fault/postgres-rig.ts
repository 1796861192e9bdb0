// A PostgreSQL store whose every report is counted, and what its database holds.

import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import type { PostgresBackend } from "../../src/stores/postgres/postgres-store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { closedWithTest } from "../support/ends.ts";
import type { PostgresServer } from "../support/postgres-server.ts";
import { whenUp } from "../support/when-up.ts";
import { Reports, until } from "./store-rig.ts";

type PostgresStoreOptions = Parameters<typeof openPostgresStore>[0];

/** A store, what it reports, and its first connection awaited. */
export async function openPostgresRig(
  options: Omit<PostgresStoreOptions, "observer">,
): Promise<{ store: SharedStore<PostgresBackend>; reports: Reports }> {
  const reports = new Reports();
  const store = closedWithTest(openPostgresStore({ ...options, observer: reports }));
  if (!(await whenUp(store, 10_000))) throw new Error(store.trouble());
  return { store, reports };
}

/**
 * Whether stores have so many connections, all of which have tested themselves and done nothing since. One that is only idle is not up yet,
 * and one of a store that is closed may still be making tables.
 */
export async function areUp(server: PostgresServer, count: number): Promise<boolean> {
  const [found] = await server.query(
    `SELECT count(*) AS all, count(*) FILTER (WHERE state = 'idle' AND query LIKE 'DELETE FROM bucket%') AS up
     FROM pg_stat_activity WHERE application_name = 'headgate'`,
  );
  return Number(found?.all) === count && Number(found?.up) === count;
}

/** Tokens owed by the token buckets of the database, by key; without what stores try for themselves when they connect. */
export async function debts(server: PostgresServer): Promise<Map<string, number>> {
  const rows = await server.query(
    "SELECT bucket_key, used FROM headgate.bucket WHERE bucket_key NOT LIKE '%headgate:%'",
  );
  return new Map(rows.map(({ bucket_key, used }) => [String(bucket_key), Number(used) / 1_000_000]));
}

/** Tokens owed by one of them; 0 if there isn't one. */
export async function debtOf(server: PostgresServer, key: string): Promise<number> {
  return (await debts(server)).get(key) ?? 0;
}

/** Empties the tables. */
export async function flush(server: PostgresServer): Promise<void> {
  await server.query("TRUNCATE headgate.bucket, headgate.settled_hold, headgate.runtime_process");
}

/** Sweeps once the connection for sweeps, which may come up after theirs, is up. Resolves to the number of rows. */
export async function sweep(store: SharedStore<PostgresBackend>): Promise<number> {
  let swept: number | undefined;
  await until("it sweeps", async () => {
    swept = await store.backend.housekeeping.sweep();
    return swept !== undefined;
  });
  return swept ?? 0;
}
