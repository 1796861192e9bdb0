// What a snapshot says of a memory store, as entries of whole numbers (snapshot-entries.ts): when it was begun, with the key of the hashes; then
// each bucket, each settled id, and each bucket with holds. What an entry has is what the functions here write and read.
//
// Each bucket is read under its lock, at one moment between begin and end of the snapshot; two buckets may be of different moments. A bucket
// with holds is written once more, with its holds, both of one moment: a hold without its payment would give back what nobody paid.

import {
  LIMIT_NUMBERS,
  type LimitNumbers,
  limitOfNumbers,
  numbersOfLimit,
} from "../../../engine/algorithms/held-limit.ts";
import type { KeptHold } from "../../../engine/algorithms/hold-book.ts";
import { LogState } from "../../../engine/algorithms/log-state.ts";
import { divideDown, MICROS_PER_SECOND } from "../../../engine/base/units.ts";
import { hashKeyInUse, type KeyHash, newHash, useHashKey } from "../../../engine/domain/key-bytes.ts";
import type { BucketRecord, Buckets } from "../buckets.ts";
import type { StoreMemory } from "../store-memory.ts";

/** Kinds of entries, their first number. Another kind needs another version (snapshot-entries.ts). */
const Kind = { begin: 1, bucket: 2, log: 3, holds: 4, settled: 5 } as const;
type Entry = readonly number[];

/** Records that are read under one lock. */
const RECORDS_PER_LOCK = 64;
/** Characters of an id in one number, which is below 2^53. */
const CHARS_PER_NUMBER = 6;
/** Places in an entry: after kind and hash, and after the state of a bucket. */
const AFTER_HASH = 5;
const AFTER_BUCKET = 9;

const newRecord = (): BucketRecord => ({ ...newHash(), atUs: 0, used: 0, previous: 0, expiresS: 0, log: 0 });

/** Yields the entries of all that has not ended by `nowUs`, some at a time. Takes may come in between, and in other threads at any time. */
export function* writeSnapshot(memory: StoreMemory, buckets: Buckets, nowUs: number): Generator<Entry[], void, void> {
  yield [[Kind.begin, nowUs, ...hashKeyInUse()]];
  yield* recordEntries(memory, buckets, nowUs);
  yield* holdEntries(memory, buckets, nowUs);
}

const hashOf = ({ keyHash, keyHash1, keyHash2, keyHash3 }: KeyHash) => [
  keyHash,
  keyHash1 >>> 0,
  keyHash2 >>> 0,
  keyHash3 >>> 0,
];

function bucketEntry(kind: number, record: BucketRecord): Entry {
  const { expiresS, atUs, used, previous } = record;
  return [kind, ...hashOf(record), expiresS, atUs, used, previous];
}

/** Its length, then its characters. */
function numbersOfId(id: string): number[] {
  const numbers = [id.length];
  for (let at = 0; at < id.length; at += CHARS_PER_NUMBER) {
    let number = 0;
    for (let i = CHARS_PER_NUMBER - 1; i >= 0; i--) number = number * 256 + (id.charCodeAt(at + i) || 0);
    numbers.push(number);
  }
  return numbers;
}

/** The buckets and logs, in the portions that one lock covers. */
function* recordEntries(memory: StoreMemory, buckets: Buckets, nowUs: number): Generator<Entry[], void, void> {
  const nowS = divideDown(nowUs, MICROS_PER_SECOND);
  const record = newRecord();
  const log = new LogState();
  for (let stripe = 0; stripe < memory.layout.stripes; stripe++) {
    for (let at = 1; at <= buckets.madeIn(stripe); ) {
      const entries: Entry[] = [];
      memory.want(stripe);
      memory.lock();
      // Records may be added meanwhile.
      const end = Math.min(at + RECORDS_PER_LOCK, buckets.madeIn(stripe) + 1);
      for (; at < end; at++) {
        if (!buckets.readRecord(stripe, at, nowS, record)) continue;
        if (record.log === 0) entries.push(bucketEntry(Kind.bucket, record));
        else {
          memory.lockLogsAndHolds();
          buckets.readLog(record.log, log);
          entries.push([Kind.log, ...hashOf(record), record.expiresS, ...log.kept()]);
        }
      }
      memory.commit();
      yield entries;
    }
  }
}

/** The settled ids and the buckets with holds. */
function* holdEntries(memory: StoreMemory, buckets: Buckets, nowUs: number): Generator<Entry[], void, void> {
  const { holds: book } = buckets;
  const nowS = divideDown(nowUs, MICROS_PER_SECOND);
  const record = newRecord();
  for (let at = 1; at <= book.made; at++) {
    const entries: Entry[] = [];
    memory.lockLogsAndHolds();
    const isBucket = book.isBucketAt(at, record);
    const settled = book.settledAt(at, record);
    memory.commit();
    if (settled !== undefined && settled.forgetAtUs > nowUs)
      entries.push([Kind.settled, ...hashOf(record), settled.forgetAtUs, ...numbersOfId(settled.id)]);
    if (isBucket) {
      memory.want(memory.stripeOf(record));
      memory.lock();
      memory.lockLogsAndHolds();
      entries.push(...heldEntry(buckets, nowS, record));
      memory.commit();
    }
    yield entries;
  }
}

/** None, if the bucket has lost its holds. */
function heldEntry(buckets: Buckets, nowS: number, record: BucketRecord): Entry[] {
  const { holds: book } = buckets;
  book.beginStep();
  const holds = book.of(record);
  if (holds === undefined) return [];
  if (!buckets.readKey(record, nowS, record)) Object.assign(record, { expiresS: 0, atUs: 0, used: 0, previous: 0 });
  const lows = holds.lows.numbers();
  const live = book.live(holds).flatMap(({ id, cost, paidAtUs, endsAtUs, payment }) => {
    return [cost, paidAtUs, endsAtUs, payment, ...numbersOfId(id)];
  });
  const limit = numbersOfLimit(book.limitOf(holds));
  return [[...bucketEntry(Kind.holds, record), ...limit, lows.length, ...lows, ...live]];
}

/** The result of reading a snapshot. */
export interface ReadSnapshot {
  beganAtUs: number;
  /** The key of the snapshot's hashes, which is in use from then on. */
  hashKey: Uint8Array;
  /** Buckets kept, buckets that had expired, and logs for which SLIDING_LOG_BYTES_MAX has no room. */
  kept: number;
  ended: number;
  withoutRoom: number;
}

/** Reads all that has not ended by `nowUs` into empty buckets. If `entries` throws, what is in them is not to be used. */
export function readSnapshot(
  entries: Iterable<Float64Array>,
  memory: StoreMemory,
  buckets: Buckets,
  nowUs: number,
): ReadSnapshot {
  const nowS = divideDown(nowUs, MICROS_PER_SECOND);
  buckets.nowS = nowS;
  const read: ReadSnapshot = { beganAtUs: 0, hashKey: hashKeyInUse(), kept: 0, ended: 0, withoutRoom: 0 };
  const log = new LogState();
  const keep = (record: BucketRecord, log: LogState | undefined) => {
    if (record.expiresS <= nowS) read.ended++;
    else if (log === undefined || buckets.hasRoomForLog(log.count)) {
      buckets.writeRecord(record, log);
      read.kept++;
    } else read.withoutRoom++;
  };
  for (const entry of entries) {
    const kind = entry[0];
    if (kind === Kind.begin) {
      read.beganAtUs = entry[1] as number;
      read.hashKey = Buffer.from(entry.subarray(2));
      // Ids of holds are hashed as they are taken.
      useHashKey(Buffer.from(read.hashKey));
    } else if (kind === Kind.bucket) keep(bucketIn(entry), undefined);
    else if (kind === Kind.log) {
      log.restore(entry.subarray(AFTER_HASH + 1));
      keep(bucketIn(entry), log);
    } else if (kind === Kind.holds) takeHolds(buckets, entry, nowS);
    else {
      const forgetAtUs = entry[AFTER_HASH] as number;
      const id = idIn(entry, AFTER_HASH + 1);
      if (forgetAtUs > nowUs) buckets.holds.noteSettled(bucketIn(entry), id, nowUs, forgetAtUs);
    }
    memory.commit();
  }
  return read;
}

/** The bucket of an entry; its state means nothing in entries of another kind than `bucket` and `holds`. */
function bucketIn(entry: Float64Array): BucketRecord {
  const [, hash = 0, hash1 = 0, hash2 = 0, hash3 = 0, expiresS = 0, atUs = 0, used = 0, previous = 0] = entry;
  const hashes = { keyHash: hash, keyHash1: hash1 | 0, keyHash2: hash2 | 0, keyHash3: hash3 | 0 };
  return { ...hashes, expiresS, atUs, used, previous, log: 0 };
}

/** The id whose length is at that place. */
function idIn(entry: Float64Array, at: number): string {
  const length = entry[at] as number;
  let id = "";
  for (let next = at + 1; id.length < length; next++) {
    let number = entry[next] as number;
    for (let i = 0; i < CHARS_PER_NUMBER && id.length < length; i++) {
      id += String.fromCharCode(number % 256);
      number = divideDown(number, 256);
    }
  }
  return id;
}

function takeHolds(buckets: Buckets, entry: Float64Array, nowS: number): void {
  const record = bucketIn(entry);
  const limit = [...entry.subarray(AFTER_BUCKET, AFTER_BUCKET + LIMIT_NUMBERS)] as unknown as LimitNumbers;
  const lowsAt = AFTER_BUCKET + LIMIT_NUMBERS;
  let at = lowsAt + 1 + (entry[lowsAt] as number);
  const lows = [...entry.subarray(lowsAt + 1, at)];
  const kept: KeptHold[] = [];
  while (at < entry.length) {
    const [cost = 0, paidAtUs = 0, endsAtUs = 0, payment = 0] = entry.subarray(at, at + 4);
    const id = idIn(entry, at + 4);
    kept.push({ id, cost, paidAtUs, endsAtUs, payment });
    at += 5 + Math.ceil(id.length / CHARS_PER_NUMBER);
  }
  const book = buckets.holds;
  // What the entry of the bucket alone says is of another moment.
  buckets.removeKey(record);
  book.beginStep();
  book.drop(record);
  if (record.expiresS > nowS) buckets.writeRecord(record, undefined);
  book.keep(record, limitOfNumbers(limit), lows, kept);
}
