// Holds in a snapshot, as JSON, because they have texts and are few beside buckets. A bucket's record is written with its holds, both of
// one moment: a hold without its payment would give back what nobody has paid.

import type { Hold } from "../../../engine/algorithms/hold-book.ts";
import { isRecord } from "../../../engine/base/is-record.ts";
import { CalendarWindows, type WindowEdges } from "../../../engine/domain/calendar-windows.ts";
import { type KeyHash, keyedOf } from "../../../engine/domain/key-bytes.ts";
import { ALGORITHM_TRAITS, ALGORITHMS, Algorithm, type Limit, OWN_LIMIT } from "../../../engine/domain/limit.ts";
import { LimitStats } from "../../../engine/domain/stats.ts";
import { type BucketPages, RECORD_WORDS, writeEmptyRecord } from "../bucket-pages.ts";
import type { Buckets, RecordViewer } from "../buckets.ts";

/** Holds per text; a text has some 20 KB if each hold has a bucket of its own. */
const HOLDS_PER_TEXT = 100;

/** Some or all of a bucket's holds. */
export interface WrittenBucket {
  readonly key: string;
  /** The record, RECORD_WORDS words; an empty record if the bucket does not exist. Only in the first part of a bucket. */
  readonly record?: readonly number[];
  /** The limit that opened the last hold, with its edges if its window is a calendar's. Needed to give expired holds back. */
  readonly limit: WrittenLimit;
  /** DebtLows.numbers; only in the first part of a bucket. */
  readonly lows?: readonly number[];
  readonly holds: readonly WrittenHold[];
}
type WrittenLimit = readonly [
  algorithm: number,
  amount: number,
  burst: number,
  windowSeconds: number,
  debtMax: number,
  holdSeconds: number,
  isConcurrent: 0 | 1,
  ...edges: readonly number[],
];
type WrittenHold = readonly [id: string, cost: number, paidAtUs: number, endsAtUs: number, payment: number];
/** The name of a settled hold, and until when it is remembered. */
type WrittenSettled = readonly [name: string, forgetAtUs: number];

/** The content of a text: one of the two. */
interface WrittenHolds {
  readonly buckets?: readonly WrittenBucket[];
  readonly settled?: readonly WrittenSettled[];
}

/** Texts of all holds, each half a millisecond of work; takes may come between them. */
export function* holdTexts(buckets: Buckets, nowS: () => number): Generator<string, void, void> {
  yield* bucketTexts(buckets, nowS);
  let settled: WrittenSettled[] = [];
  for (const one of buckets.holds.settled()) {
    settled.push(one);
    if (settled.length < HOLDS_PER_TEXT) continue;
    yield textOf({ settled });
    settled = [];
  }
  if (settled.length > 0) yield textOf({ settled });
}

function* bucketTexts(buckets: Buckets, nowS: () => number): Generator<string, void, void> {
  let parts: WrittenBucket[] = [];
  let count = 0;
  for (const bucket of buckets.holds.buckets()) {
    const { bucketKey: key } = bucket;
    const record = recordOf(buckets, key, nowS());
    const limit = numbersOf(bucket.limit);
    // Copied at this moment. Holds and lows don't change, so they may be written later.
    const holds = bucket.live();
    const lows = bucket.lows.numbers();
    for (let at = 0; at < holds.length; at += HOLDS_PER_TEXT) {
      const part = holds.slice(at, at + HOLDS_PER_TEXT).map(writtenOf);
      parts.push({ key, ...(at === 0 ? { record, lows } : {}), limit, holds: part });
      count += part.length;
      if (count < HOLDS_PER_TEXT) continue;
      yield textOf({ buckets: parts });
      parts = [];
      count = 0;
    }
  }
  if (count > 0) yield textOf({ buckets: parts });
}

function writtenOf({ id, cost, paidAtUs, endsAtUs, payment }: Hold): WrittenHold {
  return [id, cost, paidAtUs, endsAtUs, payment];
}

/** JSON in one-byte text; other letters are escaped. */
function textOf(written: WrittenHolds): string {
  return JSON.stringify(written).replace(
    /[\u0100-\uffff]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function numbersOf(limit: Limit): WrittenLimit {
  const { algorithm, amount, burst, windowSeconds, debtMax, holdSeconds, isConcurrent, calendar } = limit;
  const edges = calendar === undefined ? [] : [calendar.startUs, calendar.endUs, calendar.nextEndUs];
  return [algorithm, amount, burst, windowSeconds, debtMax, holdSeconds, isConcurrent ? 1 : 0, ...edges];
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

/** The holds of a text; undefined if `holdTexts` can't have made it. */
export function readHoldText(text: string): WrittenHolds | undefined {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { buckets = [], settled = [] } = (isRecord(read) ? read : {}) as WrittenHolds;
  const isGood =
    Array.isArray(buckets) &&
    buckets.every(isBucket) &&
    Array.isArray(settled) &&
    settled.every((one) => isTuple(one, ["string", "number"]));
  return isRecord(read) && isGood ? { buckets, settled } : undefined;
}

/** A limit with these numbers, for a store alone: without a policy or names of its own. */
export function limitOfNumbers(numbers: WrittenLimit): Limit {
  const [algorithm, amount, burst, windowSeconds, debtMax, holdSeconds, isConcurrent, ...edges] = numbers;
  const [startUs = 0, endUs = 0, nextEndUs = 0] = edges;
  return {
    ...OWN_LIMIT,
    algorithm: algorithm as Algorithm,
    amount,
    burst,
    windowSeconds,
    calendar: edges.length === 0 ? undefined : windowsOf({ startUs, endUs, nextEndUs }),
    debtMax,
    holdSeconds,
    isConcurrent: isConcurrent === 1,
    stats: new LimitStats(),
  };
}

/** Windows with no other edges than these. */
function windowsOf(edges: WindowEdges): CalendarWindows {
  const windows = new CalendarWindows("", () => edges);
  // Set now, because the windows may be written again before anybody asks for them.
  windows.turnTo(edges.startUs);
  return windows;
}

function isBucket(bucket: unknown): boolean {
  if (!isRecord(bucket)) return false;
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
  if (!Array.isArray(limit) || !limit.every(isWhole)) return false;
  const [algorithm, , , windowSeconds = 0, , holdSeconds = 0, isConcurrent = 0, ...edges] = limit as readonly number[];
  return limit.length >= 7 && areEdges(algorithm, edges) && windowSeconds > 0 && holdSeconds > 0 && isConcurrent <= 1;
}

/** Whether a limit of this algorithm may have holds, and these edges. Only calendar windows have edges. */
function areEdges(algorithm: number | undefined, edges: readonly number[]): boolean {
  const [startUs = 0, endUs = 0, nextEndUs = 0] = edges;
  if (algorithm === Algorithm.calendarWindow) return edges.length === 3 && startUs < endUs && endUs < nextEndUs;
  const known = ALGORITHMS.find((each) => each === algorithm);
  return known !== undefined && ALGORITHM_TRAITS[known].mayHold && edges.length === 0;
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
