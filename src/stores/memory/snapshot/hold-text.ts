// Holds in a snapshot: JSON, because they have texts and are few beside buckets. A bucket's record stands with its holds, both
// as they were at one moment: a hold without its payment would give back what nobody paid.

import type { BucketHolds, Hold } from "../../../algorithms/hold-book.ts";
import { keyedOf } from "../../../core/key-bytes.ts";
import type { KeyHash } from "../../../core/key-hash.ts";
import { Algorithm, type Limit, OnStoreFailure, Sync, Unit } from "../../../core/limit.ts";
import { LimitStats } from "../../../core/limit-stats.ts";
import { type BucketPages, RECORD_WORDS, writeEmptyRecord } from "../bucket-pages.ts";
import type { Buckets, RecordViewer } from "../buckets.ts";

/** Holds of one text: some 30 KB. */
const HOLDS_PER_TEXT = 500;

/** Part of the holds of a bucket. */
export interface WrittenBucket {
  readonly key: string;
  /** The record, RECORD_WORDS words of it: one of nothing if the bucket is kept nowhere. In its first part alone. */
  readonly record?: readonly number[];
  /** Numbers of the limit that opened the last hold: what gives back those that nobody asks about. */
  readonly limit: WrittenLimit;
  /** DebtLows.numbers; in its first part alone. */
  readonly lows?: readonly number[];
  readonly holds: readonly WrittenHold[];
}
type WrittenLimit = Pick<
  Limit,
  "algorithm" | "amount" | "burst" | "windowSeconds" | "debtMax" | "holdSeconds" | "isConcurrent"
>;
type WrittenHold = readonly [id: string, cost: number, paidAtUs: number, endsAtUs: number, payment: number];
/** The name of a settled hold, and until when that is remembered. */
type WrittenSettled = readonly [name: string, forgetAtUs: number];

/** What one text has: one of the two. */
interface WrittenHolds {
  readonly bucket?: WrittenBucket;
  readonly settled?: readonly WrittenSettled[];
}

/** Texts of all holds, each well under a millisecond of work; takes may go on between them. */
export function* holdTexts(buckets: Buckets, nowS: () => number): Generator<string, void, void> {
  for (const bucket of buckets.holds.buckets()) yield* bucketTexts(bucket, recordOf(buckets, bucket.bucketKey, nowS()));
  let settled: WrittenSettled[] = [];
  for (const one of buckets.holds.settled()) {
    settled.push(one);
    if (settled.length < HOLDS_PER_TEXT) continue;
    yield textOf({ settled });
    settled = [];
  }
  if (settled.length > 0) yield textOf({ settled });
}

function* bucketTexts(bucket: BucketHolds, record: readonly number[]): Generator<string, void, void> {
  const { bucketKey: key } = bucket;
  const limit = numbersOf(bucket.limit);
  // All at this moment; they don't change, so they may be written later.
  const holds = bucket.live();
  const lows = bucket.lows.numbers();
  for (let at = 0; at < holds.length; at += HOLDS_PER_TEXT) {
    const part = holds.slice(at, at + HOLDS_PER_TEXT).map(writtenOf);
    yield textOf({ bucket: { key, ...(at === 0 ? { record, lows } : {}), limit, holds: part } });
  }
}

function writtenOf({ id, cost, paidAtUs, endsAtUs, payment }: Hold): WrittenHold {
  return [id, cost, paidAtUs, endsAtUs, payment];
}

function textOf(written: WrittenHolds): string {
  return JSON.stringify(written);
}

function numbersOf(limit: Limit): WrittenLimit {
  const { algorithm, amount, burst, windowSeconds, debtMax, holdSeconds, isConcurrent } = limit;
  return { algorithm, amount, burst, windowSeconds, debtMax, holdSeconds, isConcurrent };
}

function recordOf(buckets: Buckets, bucketKey: string, nowS: number): readonly number[] {
  const words = new Int32Array(RECORD_WORDS);
  const key: KeyHash = keyedOf(bucketKey);
  writeEmptyRecord(words, 0, key);
  const viewer: RecordViewer = {
    view: (pages: BucketPages, slot: number) => pages.copyTo(slot, words, 0),
  };
  buckets.viewRecord(words, 0, nowS, viewer);
  return [...words];
}

/** The holds that a text has. Undefined if it is not one that `holdTexts` has made. */
export function readHoldText(text: string): WrittenHolds | undefined {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { bucket, settled = [] } = (isObject(read) ? read : {}) as WrittenHolds;
  const isGood =
    (bucket === undefined || isBucket(bucket)) &&
    Array.isArray(settled) &&
    settled.every((one) => isTuple(one, ["string", "number"]));
  return isObject(read) && isGood ? { ...(bucket === undefined ? {} : { bucket }), settled } : undefined;
}

/** A limit of those numbers, with nothing that people see. */
export function limitOfNumbers(numbers: WrittenLimit): Limit {
  return { ...UNSEEN, ...numbers, stats: new LimitStats() };
}

function isBucket(bucket: unknown): boolean {
  if (!isObject(bucket)) return false;
  const { key, record, lows, limit, holds } = bucket as unknown as WrittenBucket;
  return (
    typeof key === "string" &&
    (record === undefined ||
      isTuple(
        record,
        Array.from({ length: RECORD_WORDS }, () => "integer"),
      )) &&
    (lows === undefined || (Array.isArray(lows) && lows.every(isWhole))) &&
    isLimit(limit) &&
    Array.isArray(holds) &&
    holds.every((hold) => isTuple(hold, ["string", "number", "number", "number", "number"]))
  );
}

function isLimit(limit: unknown): boolean {
  if (!isObject(limit)) return false;
  const { algorithm, amount, burst, windowSeconds, debtMax, holdSeconds, isConcurrent } =
    limit as unknown as WrittenLimit;
  return (
    (algorithm === Algorithm.tokenBucket || algorithm === Algorithm.fixedWindow) &&
    [amount, burst, debtMax].every(isWhole) &&
    [windowSeconds, holdSeconds].every((seconds) => isWhole(seconds) && seconds > 0) &&
    typeof isConcurrent === "boolean"
  );
}

function isTuple(value: unknown, kinds: readonly string[]): boolean {
  if (!Array.isArray(value) || value.length !== kinds.length) return false;
  return value.every((item: unknown, i) => {
    if (kinds[i] === "integer") return Number.isInteger(item);
    return kinds[i] === "number" ? isWhole(item) : typeof item === kinds[i];
  });
}

function isWhole(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const UNSEEN = {
  writtenSeconds: 1,
  shownAmount: 0,
  shownUnit: Unit.unknown,
  name: "",
  readableName: "",
  id: "",
  path: "",
  keySuffix: "",
  isCounter: false,
  retryAfterJitter: 0,
  onStoreFailure: OnStoreFailure.allow,
  sync: Sync.exact,
  replaces: [],
} as const;
