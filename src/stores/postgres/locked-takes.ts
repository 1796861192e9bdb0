// Decides a batch in one transaction: locks its rows, decides its groups as the memory store does, writes what changed,
// commits (sql/locked_takes.sql). Nobody hears an answer before the commit is confirmed. Two round trips. A process
// that stops between them loses its session and so its locks (`idle_in_transaction_session_timeout`, connect.ts), and
// takes that became too late meanwhile are not written.

import type { Clock } from "../../base/clock.ts";
import { HeldSettlement } from "../../engine/algorithms/held-settlement.ts";
import { CounterSettlement } from "../../engine/counters/counter-settlement.ts";
import { keyedOf } from "../../engine/domain/key-bytes.ts";
import { copyQuestion, Mode, Outcome, type Take, TakeGroup, Verdict } from "../../engine/domain/take.ts";
import type { BatchedGroup } from "../batching/batch.ts";
import { HELD, HOLDS_FULL, OPENED, PAID, ReplyReader, TOO_LATE } from "../batching/reply.ts";
import type { PostgresConnection, Rows, Statement } from "./connect.ts";
import { LockedRows, Row } from "./locked-rows.ts";
import { type PostgresBatch, storedKey, textArray } from "./postgres-batch.ts";
import { isRefusal } from "./refusals.ts";

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
 * Resolves to the reply once all is committed; to undefined if PostgreSQL's answer is invalid and the connection has to
 * go. Rejects with what PostgreSQL refused, after which nothing is paid, or with another error if it is unknown what
 * was.
 */
export async function settleLocked(
  batch: PostgresBatch,
  connection: PostgresConnection,
  settlement: BatchSettlement,
  lockTimeoutMs: number,
): Promise<ReplyReader | undefined> {
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
    const known = new Map(settled.map(([name, untilUs]) => [name ?? "", Number(untilUs)]));
    const { reader, rows, kept, settledHolds, latestUs } = settlement.settle(batch, locked, names, known);
    const end: Statement[] = rows.length === 0 ? [] : [writeRows(rows, kept, latestUs)];
    if (settledHolds.length > 0) end.push(writeSettled(settledHolds));
    await together(connection, [...end, { text: "COMMIT" }]);
    return reader;
  } catch (error) {
    // A COMMIT after a refused statement rolls back anyway. If the connection is gone, so is the transaction.
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
  const names = textArray(holds.map(([name]) => name));
  return { ...WRITE_SETTLED, values: [names, `{${holds.map(([, untilUs]) => untilUs).join()}}`] };
}

interface Settled {
  readonly reader: ReplyReader;
  /** What is to be written: rows that the table has, `kept` of them, then new ones in the order of their keys. */
  readonly rows: readonly Row[];
  readonly kept: number;
  /** Names of holds that were settled, and until when each is remembered. */
  readonly settledHolds: readonly (readonly [name: string, untilUs: number])[];
  /** When the last of the decided groups is too late; 0 if none ever is. What is answered meanwhile is given back. */
  readonly latestUs: number;
}

/** Reused from batch to batch. */
export class BatchSettlement {
  readonly #latestOf: (batched: BatchedGroup) => number;
  readonly #injectedTime: Clock | undefined;
  readonly #rows = new LockedRows();
  readonly #settlement = new HeldSettlement(this.#rows, this.#rows.holds);
  readonly #counters = new CounterSettlement(this.#rows);
  readonly #group = new TakeGroup();

  /** `latestOf`: see ServerTimes. `injectedTime`: the clock of the buckets, in place of the server's; for tests. */
  constructor(latestOf: (batched: BatchedGroup) => number, injectedTime: Clock | undefined) {
    this.#latestOf = latestOf;
    this.#injectedTime = injectedTime;
  }

  /**
   * `locked` is what lock_buckets replied, `named` the holds that the batch names, `known` those of them that are
   * remembered as settled.
   */
  settle(
    batch: PostgresBatch,
    locked: Rows,
    named: ReturnType<PostgresBatch["namedHolds"]>,
    known: ReadonlyMap<string, number>,
  ): Settled {
    const nowUs = this.#injectedTime?.nowUs() ?? Number(locked.at(-1)?.[1]);
    this.#rows.begin(nowUs);
    const holders = this.#addRows(batch, locked);
    const ids = [...named].map(([name, hold]) => ({ name, hash: keyedOf(hold.bucketKey), id: hold.holdId }));
    for (const { name, hash, id } of ids) {
      const untilUs = known.get(name) ?? 0;
      if (untilUs > nowUs) this.#rows.holds.noteSettled(hash, id, nowUs, untilUs);
    }
    const numbers = [nowUs, 0];
    let latestUs = 0;
    for (const batched of batch.groups) {
      const groupLatestUs = this.#latestOf(batched);
      // A group of another generation serves another call: nobody waits for this one.
      if ((groupLatestUs > 0 && nowUs > groupLatestUs) || batched.group.generation !== batched.generation) {
        numbers.push(TOO_LATE);
        continue;
      }
      copyAsked(batched.group, this.#group);
      if (this.#pushHeld(numbers, batch, holders)) continue;
      latestUs = Math.max(latestUs, groupLatestUs);
      if (batched.isGiveBack) this.#giveBack(numbers, nowUs);
      else this.#settleGroup(numbers, nowUs);
    }
    this.#pushEnded(numbers, batch);
    numbers[1] = this.#rows.damaged;
    const settledHolds = ids
      .map(({ name, hash, id }): [string, number] => [name, this.#rows.holds.forgetAtUs(hash, id)])
      .filter(([name, untilUs]) => untilUs > 0 && known.get(name) !== untilUs);
    return { reader: new ReplyReader(numbers), ...this.#rows.finish(), settledHolds, latestUs };
  }

  /** Returns who holds the rows that were passed over, by key. */
  #addRows(batch: PostgresBatch, locked: Rows): ReadonlyMap<string, number> {
    const holders = new Map<string, number>();
    for (const [place, ...numbers] of locked) {
      const at = Number(place);
      const bucketKey = batch.keyAt(Math.abs(at));
      if (at > 0) this.#rows.add(bucketKey, new Row(storedKey(bucketKey), numbers));
      else if (at < 0 && this.#rows.row(bucketKey) === undefined) holders.set(bucketKey, Number(numbers[0]));
    }
    for (const bucketKey of batch.bucketKeys) {
      if (this.#rows.row(bucketKey) !== undefined || holders.has(bucketKey)) continue;
      this.#rows.add(bucketKey, new Row(storedKey(bucketKey)));
    }
    return holders;
  }

  #giveBack(numbers: number[], nowUs: number): void {
    const take = this.#group.takes[0] as Take;
    if (take.limit.holdSeconds > 0) this.#rows.openHolds(take.bucketKey, take.limit);
    Object.assign(take, { mode: Mode.pay, paid: true });
    this.#settlement.giveBack(this.#group, nowUs);
    numbers.push(Verdict.allowed, Outcome.room, 0, 0, 0, 0, 0);
  }

  #pushHeld(numbers: number[], batch: PostgresBatch, holders: ReadonlyMap<string, number>): boolean {
    if (holders.size === 0) return false;
    for (let i = 0; i < this.#group.size; i++) {
      const key = this.#group.takes[i]?.bucketKey ?? "";
      const holder = holders.get(key);
      if (holder === undefined) continue;
      numbers.push(HELD, batch.placeOfKey(key), holder);
      return true;
    }
    return false;
  }

  #settleGroup(numbers: number[], nowUs: number): void {
    const group = this.#group;
    if (group.takesWithHolds > 0) this.#openHolds();
    (group.takes[0]?.limit.isCounter ? this.#counters : this.#settlement).settle(group, nowUs);
    if (group.verdict === Verdict.failed) {
      numbers.push(HOLDS_FULL);
      return;
    }
    numbers.push(group.verdict);
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i];
      if (take !== undefined) pushAnswer(numbers, take);
    }
  }

  /** Holds need a row, which can be locked: without one, two calls could settle one id at the same time. */
  #openHolds(): void {
    for (let i = 0; i < this.#group.size; i++) {
      const take = this.#group.takes[i];
      if (take === undefined || take.limit.holdSeconds === 0) continue;
      this.#rows.openHolds(take.bucketKey, take.limit);
      const row = this.#rows.row(take.bucketKey);
      if (row === undefined) continue;
      if (!row.isKept) row.isChanged = true;
      take.stats = row.holdStats ?? take.stats;
    }
  }

  #pushEnded(numbers: number[], batch: PostgresBatch): void {
    for (const [at, bucketKey] of batch.bucketKeys.entries()) {
      const ended = this.#rows.row(bucketKey)?.holdStats?.holdsExpired ?? 0;
      if (ended > 0) numbers.push(at + 1, ended);
    }
  }
}

/** The group itself is answered only once all is committed. */
function copyAsked(group: TakeGroup, into: TakeGroup): void {
  into.reset();
  into.hasSpareQuota = group.hasSpareQuota;
  for (let i = 0; i < group.size; i++) copyQuestion(group.takes[i] as Take, into);
}

/** As batching/reply.ts reads it. */
function pushAnswer(numbers: number[], take: Take): void {
  const { outcome, paid, openedHold, remaining, waitUs, resetUs, cappedHits } = take;
  numbers.push(outcome + (paid ? PAID : 0) + (openedHold ? OPENED : 0), remaining, waitUs, resetUs);
  numbers.push(fifthOf(take), cappedHits);
}

function fifthOf({ limit, mode, count, held, liveHolds, paidAtUs }: Take): number {
  if (limit.isCounter) return count;
  if (mode === Mode.settle) return held;
  return limit.holdSeconds > 0 && mode === Mode.peek ? liveHolds : paidAtUs;
}
