// The rows of one call, from the moment they are locked until they are written: the settlement reads and changes them
// here, as the memory store's buckets. sql/tables.sql says what a row has.

import { AMOUNT_MAX } from "../../base/units.ts";
import { HoldBook, type KeptHold } from "../../engine/algorithms/hold-book.ts";
import { ID_BYTES_MAX } from "../../engine/algorithms/hold-tables.ts";
import { LogState, unpackLog } from "../../engine/algorithms/log-state.ts";
import { type BucketAccess, type WorkingBucket, windowUsOf } from "../../engine/algorithms/working-bucket.ts";
import { type KeyHash, keyedOf } from "../../engine/domain/key-bytes.ts";
import { Algorithm, HOLDS_IN_MEMORY_MAX, type Limit } from "../../engine/domain/limit.ts";
import { LimitStats } from "../../engine/domain/stats.ts";

/** The largest count of a counter: the largest number below 2^63 that a double can hold. */
const COUNT_MAX = 2 ** 63 - 1_024;

/** A bucket's row. */
export class Row {
  /** The bucket's key as the table has it. */
  readonly key: string;
  /** Whether the table has the row. */
  readonly isKept: boolean;
  atUs: number;
  used: number;
  previous: number;
  expiresUs: number;
  packed: string | null;
  /** False if it means the same as no row. */
  isUsed: boolean;
  /** Whether its numbers were checked; only a take says which algorithm they belong to. */
  isChecked = false;
  /** Whether it is to be written. */
  isChanged = false;
  /** Its log (LogState.kept). */
  log: Float64Array | undefined = undefined;
  /**
   * Counts its holds, and the hash by which they are found; undefined unless a take of the call has a limit with holds.
   */
  holdStats: LimitStats | undefined = undefined;
  hash: KeyHash | undefined = undefined;

  /** `kept` is what lock_buckets replied after the place; undefined if the table has no row. */
  constructor(key: string, kept?: readonly (string | null)[]) {
    const [atUs = 0, used = 0, previous = 0, expiresUs = 0, packed = null] = kept ?? [];
    this.key = key;
    this.isKept = kept !== undefined;
    this.atUs = Number(atUs);
    this.used = Number(used);
    this.previous = Number(previous);
    this.expiresUs = Number(expiresUs);
    this.packed = packed;
    this.isUsed = this.atUs !== 0 || this.used !== 0 || this.previous !== 0 || packed !== null;
  }
}

/** Reused from call to call. `begin` starts a call, `finish` ends it. */
export class LockedRows implements BucketAccess {
  /** The holds of this call's rows. */
  readonly holds = new HoldBook(HOLDS_IN_MEMORY_MAX);
  /** Rows with impossible numbers; they count as full buckets. */
  damaged = 0;
  /** By bucket key. */
  readonly #rows = new Map<string, Row>();
  /** A log on its way between a row's text and its numbers. */
  readonly #log = new LogState();
  #nowUs = 0;

  begin(nowUs: number): void {
    this.#nowUs = nowUs;
    this.damaged = 0;
    this.#rows.clear();
  }

  add(bucketKey: string, row: Row): void {
    this.#rows.set(bucketKey, row);
  }

  row(bucketKey: string): Row | undefined {
    return this.#rows.get(bucketKey);
  }

  /** Opens the holds of a bucket. Must be called before the settlement, for all takes on limits with holds. */
  openHolds(bucketKey: string, limit: Limit): void {
    const row = this.#rows.get(bucketKey);
    if (row === undefined || row.holdStats !== undefined) return;
    row.holdStats = new LimitStats();
    row.hash = keyedOf(bucketKey);
    const counted = { ...limit, stats: row.holdStats };
    if (row.packed === null || unpackHolds(this.holds, row.hash, counted, row.packed)) return;
    this.damaged++;
    row.packed = null;
    row.isChanged = true;
  }

  /** A row has room for any log. */
  hasRoomForPayment(): boolean {
    return true;
  }

  load(bucket: WorkingBucket): boolean {
    const row = this.#rows.get(bucket.bucketKey);
    if (row === undefined || !row.isUsed) return false;
    if (!row.isChecked && !this.#check(row, bucket)) return false;
    if (row.log !== undefined) {
      bucket.useLog().restore(row.log);
      return true;
    }
    const { state } = bucket;
    state.used = row.used;
    state.previous = row.previous;
    // The key of a counter names its window, by the clock of the process that asks.
    state.atUs = bucket.limit?.isCounter === true ? this.#nowUs - (this.#nowUs % windowUsOf(bucket.limit)) : row.atUs;
    return true;
  }

  save(bucket: WorkingBucket, expiresAtUs: number): void {
    const row = this.#rows.get(bucket.bucketKey);
    if (row === undefined) return;
    row.isUsed = true;
    row.isChecked = true;
    row.isChanged = true;
    row.expiresUs = expiresAtUs;
    if (bucket.log !== undefined) {
      row.log = bucket.log.kept();
      return;
    }
    row.atUs = bucket.limit?.isCounter === true ? 0 : bucket.state.atUs;
    row.used = Math.min(bucket.state.used, COUNT_MAX);
    row.previous = bucket.state.previous;
  }

  extend(bucket: WorkingBucket, expiresAtUs: number): void {
    const row = this.#rows.get(bucket.bucketKey);
    if (row === undefined || !row.isUsed || row.expiresUs >= expiresAtUs) return;
    row.isChanged = true;
    row.expiresUs = expiresAtUs;
  }

  remove(bucket: WorkingBucket): void {
    const row = this.#rows.get(bucket.bucketKey);
    if (row !== undefined) this.#clear(row, bucket);
  }

  /** The rows to write, kept ones first, then new ones in the order of their keys. */
  finish(): { readonly rows: readonly Row[]; readonly kept: number } {
    const kept: Row[] = [];
    const made: Row[] = [];
    for (const row of this.#rows.values()) {
      if (row.hash !== undefined) this.#packHolds(row.hash, row);
      if (row.log !== undefined && row.isChanged) row.packed = row.log.join();
      if (row.isChanged) (row.isKept ? kept : made).push(row);
    }
    this.holds.clear();
    made.sort((one, other) => (one.key < other.key ? -1 : 1));
    return { rows: [...kept, ...made], kept: kept.length };
  }

  /** A row lives as long as its holds. */
  #packHolds(hash: KeyHash, row: Row): void {
    const holds = this.holds.of(hash);
    const live = holds === undefined ? [] : this.holds.live(holds);
    const packed = holds === undefined ? null : packHolds(holds.lows.numbers(), live);
    if (packed !== row.packed) row.isChanged = true;
    row.packed = packed;
    row.expiresUs = Math.max(row.expiresUs, live.at(-1)?.endsAtUs ?? 0);
  }

  #check(row: Row, bucket: WorkingBucket): boolean {
    row.isChecked = true;
    if (bucket.algorithm === Algorithm.slidingLog) {
      if (row.packed !== null && unpackLog(row.packed, this.#log)) {
        row.log = this.#log.kept();
        return true;
      }
    } else if (bucket.limit === undefined || makesSense(row, bucket.limit)) {
      // Not a number of theirs.
      if (bucket.algorithm === Algorithm.tokenBucket || bucket.algorithm === Algorithm.fixedWindow) row.previous = 0;
      return true;
    }
    this.damaged++;
    this.#clear(row, bucket);
    return false;
  }

  #clear(row: Row, bucket: WorkingBucket): void {
    if (bucket.algorithm === Algorithm.slidingLog) row.packed = null;
    row.log = undefined;
    row.atUs = 0;
    row.used = 0;
    row.previous = 0;
    row.expiresUs = this.#nowUs;
    row.isUsed = false;
    if (row.isKept) row.isChanged = true;
  }
}

/** Whether the algorithm can have left these numbers. */
function makesSense({ atUs, used, previous }: Row, limit: Limit): boolean {
  if (!Number.isSafeInteger(atUs) || atUs < 0 || used < 0) return false;
  if (limit.isCounter) return atUs === 0;
  if (limit.algorithm === Algorithm.tokenBucket) return Number.isSafeInteger(used);
  if (used > AMOUNT_MAX) return false;
  if (limit.algorithm !== Algorithm.fixedWindow && (previous < 0 || previous > AMOUNT_MAX)) return false;
  return limit.algorithm === Algorithm.calendarWindow || atUs % windowUsOf(limit) === 0;
}

/** Live holds as text in their bucket's row: JSON in ASCII of the numbers of the bucket's lows, then of each hold. */
type PackedHold = readonly [id: string, cost: number, paidAtUs: number, endsAtUs: number, payment: number];

export function packHolds(lows: readonly number[], live: readonly KeptHold[]): string {
  const holds = live.map(({ id, cost, paidAtUs, endsAtUs, payment }) => [id, cost, paidAtUs, endsAtUs, payment]);
  return JSON.stringify([lows, holds]).replace(/[\x7f-\xff]/g, escapeOf);
}

function escapeOf(char: string): string {
  return `\\u00${char.charCodeAt(0).toString(16)}`;
}

/**
 * Adds the holds of a text to the book, as those of this bucket. False, with the book unchanged, if `packHolds` can't
 * have written the text.
 */
export function unpackHolds(book: HoldBook, bucket: KeyHash, limit: Limit, text: string): boolean {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return false;
  }
  if (!Array.isArray(read) || read.length !== 2) return false;
  const [lows, holds] = read as unknown[];
  if (!Array.isArray(lows) || !lows.every(Number.isSafeInteger) || !Array.isArray(holds) || !holds.every(isHold))
    return false;
  book.keep(bucket, limit, lows as number[], (holds as PackedHold[]).map(holdOf));
  return true;
}

function holdOf([id, cost, paidAtUs, endsAtUs, payment]: PackedHold): KeptHold {
  return { id, cost, paidAtUs, endsAtUs, payment };
}

function isHold(value: unknown): value is PackedHold {
  if (!Array.isArray(value) || value.length !== 5) return false;
  const [id, ...numbers] = value as unknown[];
  return typeof id === "string" && id.length <= ID_BYTES_MAX && numbers.every(Number.isSafeInteger);
}
