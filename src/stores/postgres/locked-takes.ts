// Settles a batch in one transaction: locks its rows, settles its groups, writes what changed, commits (sql/locked_takes.sql). Nobody
// hears an answer before the commit is confirmed. Two round trips. A process that stops between them loses its session and so its
// locks (`idle_in_transaction_session_timeout`, connect.ts), and takes that became too late meanwhile are not written.

import type { ReplyReader } from "../batching/reply.ts";
import { type PostgresBatch, storedKey, textArray } from "./batch.ts";
import type { BatchSettlement } from "./batch-settlement.ts";
import { isRefusal, type PostgresConnection, type Rows, type Statement } from "./connect.ts";
import type { Row } from "./locked-rows.ts";

export const LOCK_BUCKETS = {
  name: "lock_buckets",
  text: "SELECT * FROM lock_buckets($1::text[], $2::boolean, $3::bigint)",
} as const;
export const WRITE_BUCKETS = {
  name: "write_buckets",
  text: `SELECT write_buckets($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::int, $8::bigint)`,
} as const;
const READ_SETTLED = {
  name: "read_settled",
  text: "SELECT name, until_us FROM settled_hold WHERE name = ANY ($1::text[])",
} as const;
const WRITE_SETTLED = {
  name: "write_settled",
  text: `INSERT INTO settled_hold SELECT * FROM unnest($1::text[], $2::bigint[]) ORDER BY 1
    ON CONFLICT (name) DO UPDATE SET until_us = excluded.until_us`,
} as const;

/**
 * Resolves to the reply once all is committed; to undefined if PostgreSQL's answer is none, and the connection has to go. Rejects with what
 * PostgreSQL refused, after which nothing is paid, or with another error if it is unknown what was.
 */
export async function settleLocked(
  batch: PostgresBatch,
  connection: PostgresConnection,
  settlement: BatchSettlement,
  lockTimeoutMs: number,
): Promise<ReplyReader | undefined> {
  for (const { bucketKey } of batch.receipts) batch.placeOfKey(bucketKey);
  const names = batch.namedHolds();
  const keys = textArray(batch.bucketKeys.map(storedKey));
  const begin: Statement[] = [
    { text: "BEGIN" },
    { ...LOCK_BUCKETS, values: [keys, String(batch.waits), String(lockTimeoutMs)] },
  ];
  if (names.size > 0) begin.push({ ...READ_SETTLED, values: [textArray([...names.keys()])] });
  try {
    const [, locked = [], settled = []] = await together(connection, begin);
    if (locked.at(-1)?.[0] !== "0") return undefined;
    const known = new Map(settled.map(([name, untilUs]) => [names.get(name ?? "") ?? "", Number(untilUs)]));
    const { reader, rows, kept, settledHolds, latestUs } = settlement.settle(batch, locked, known);
    const end: Statement[] = rows.length === 0 ? [] : [writeRows(rows, kept, latestUs)];
    if (settledHolds.length > 0) end.push(writeSettled(settledHolds));
    await together(connection, [...end, { text: "COMMIT" }]);
    return reader;
  } catch (error) {
    // A COMMIT after a refused statement rolls back by itself. If the connection is gone, so is the transaction.
    if (isRefusal(error)) await connection.query({ text: "ROLLBACK" }).catch(() => undefined);
    throw error;
  }
}

/** Sends all at once; rejects with the first failure, after all were answered. */
async function together(connection: PostgresConnection, statements: readonly Statement[]): Promise<Rows[]> {
  const results = await Promise.allSettled(statements.map((statement) => connection.query(statement)));
  return results.map((result) => {
    if (result.status === "rejected") throw result.reason;
    return result.value;
  });
}

function writeRows(rows: readonly Row[], kept: number, latestUs: number): Statement {
  const numbers = (of: (row: Row) => number) => `{${rows.map(of).join()}}`;
  return {
    ...WRITE_BUCKETS,
    values: [
      textArray(rows.map(({ key }) => key)),
      numbers(({ atUs }) => atUs),
      numbers(({ used }) => used),
      numbers(({ previous }) => previous),
      numbers(({ expiresUs }) => expiresUs),
      textArray(rows.map(({ packed }) => packed)),
      String(kept),
      String(latestUs),
    ],
  };
}

function writeSettled(holds: readonly (readonly [name: string, untilUs: number])[]): Statement {
  const names = textArray(holds.map(([name]) => storedKey(name)));
  return { ...WRITE_SETTLED, values: [names, `{${holds.map(([, untilUs]) => untilUs).join()}}`] };
}
