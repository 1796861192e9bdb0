// Ways to keep a token bucket in PostgreSQL, in the shape of ways.mjs: `open` gives `take(user)`, `callsSent()`, `close()`.
// The plain ones use a connection per caller, up to CONNECTIONS_MAX, as a service with a pool would.

import pg from "pg";
import { clientFor } from "../harness/postgres.mjs";

const CONNECTIONS_MAX = 64;
const TABLE = `CREATE UNLOGGED TABLE IF NOT EXISTS plain (
  name text PRIMARY KEY, tokens double precision NOT NULL, at double precision NOT NULL) WITH (fillfactor = 50)`;
const READ = "SELECT tokens, at FROM plain WHERE name = $1";
const WRITE = `INSERT INTO plain VALUES ($1, $2, $3)
  ON CONFLICT (name) DO UPDATE SET tokens = excluded.tokens, at = excluded.at`;

/** Read the bucket, decide here, write it back: two statements, nothing holds the row between them. */
export const sqlReadThenWrite = {
  title: "SQL: read, then write",
  server: "postgres",
  open: (options) =>
    openPool(options, async (query, user, limit) => {
      const { rows } = await query("read", READ, [user]);
      const next = refillAndTake(rows[0], limit);
      if (next.allowed) await query("write", WRITE, [user, next.tokens, next.at]);
      return next.allowed;
    }),
};

/** The same in a transaction that locks the row first: five statements. */
export const sqlForUpdate = {
  title: "SQL: BEGIN, FOR UPDATE, COMMIT",
  server: "postgres",
  open: (options) =>
    openPool(options, async (query, user, limit) => {
      await query("begin", "BEGIN", []);
      await query("make", "INSERT INTO plain VALUES ($1, $2, 0) ON CONFLICT DO NOTHING", [user, limit.burst]);
      const { rows } = await query("lock", `${READ} FOR UPDATE`, [user]);
      const next = refillAndTake(rows[0], limit);
      if (next.allowed) await query("write", WRITE, [user, next.tokens, next.at]);
      await query("commit", "COMMIT", []);
      return next.allowed;
    }),
};

/** The service's own store: all takes of one turn in one call of one function, rows locked in the order of their keys. */
export const headgateSql = {
  title: "Headgate's SQL",
  server: "postgres",
  open: openHeadgate,
};

async function openHeadgate({ port, limit, processes }) {
  const { openPostgresForBench } = await import("./headgate-store.mjs");
  return openPostgresForBench({ port, limit, processes });
}

async function openPool({ port, callers, limit }, takeOnce) {
  const pool = new pg.Pool({ ...clientFor(port), max: Math.min(callers, CONNECTIONS_MAX) });
  await pool.query(TABLE);
  let calls = 0;
  return {
    async take(user) {
      const client = await pool.connect();
      const query = (name, text, values) => {
        calls++;
        return client.query({ name, text, values });
      };
      try {
        return await takeOnce(query, user, limit);
      } finally {
        client.release();
      }
    },
    callsSent: () => calls,
    close: () => pool.end(),
  };
}

function refillAndTake(saved, { ratePerSecond, burst }) {
  const at = Date.now();
  const elapsedMs = saved === undefined ? 0 : Math.max(0, at - saved.at);
  const tokens = saved === undefined ? burst : Math.min(burst, saved.tokens + (elapsedMs * ratePerSecond) / 1000);
  return { allowed: tokens >= 1, tokens: tokens - 1, at };
}
