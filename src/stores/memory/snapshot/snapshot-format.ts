// What a snapshot says of a memory store, as entries of whole numbers (snapshot-entries.ts): when it was begun, with the key of the hashes; then
// each bucket, each settled id, and each bucket with holds. What an entry has is what the functions here write and read.
//
// Each bucket is read under its lock, at one moment between begin and end of the snapshot; two buckets may be of different moments. A bucket
// with holds is written once more, with its holds, both of one moment: a hold without its payment would give back what nobody paid.

import {
  areOfLimit,
  LIMIT_NUMBERS,
  type LimitNumbers,
  limitOfNumbers,
  numbersOfLimit,
} from "../../../engine/algorithms/held-limit.ts";
import type { KeptHold } from "../../../engine/algorithms/hold-book.ts";
import { ID_BYTES_MAX } from "../../../engine/algorithms/hold-records.ts";
import { LogState } from "../../../engine/algorithms/log-state.ts";
import { divideDown, MICROS_PER_SECOND } from "../../../engine/base/units.ts";
import { HASH_KEY_BYTES, hashKeyInUse, type KeyHash, newHash, useHashKey } from "../../../engine/domain/key-bytes.ts";
import { HOLDS_PER_BUCKET_MAX, LOG_PAYMENTS_MAX } from "../../../engine/domain/limit.ts";
import type { BucketRecord, Buckets } from "../buckets.ts";
import type { StoreMemory } from "../store-memory.ts";
import { refuse } from "./snapshot-entries.ts";

/** Kinds of entries, their first number. A file with another kind is refused, because ignoring it might lose buckets. */
const Kind = { begin: 1, bucket: 2, log: 3, holds: 4, settled: 5 } as const;
type Entry = readonly number[];

/** Records that are read under one lock. */
const RECORDS_PER_LOCK = 64;
/** Most numbers of DebtLows. */
const LOWS_MAX = 3 + 2 * 64;
/** Characters of an id in one number, which is below 2^53. */
const CHARS_PER_NUMBER = 6;
const WORD_MAX = 0xffff_ffff;

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

/** Those of one lock at a time. */
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
  readonly beganAtUs: number;
  /** The key of the snapshot's hashes, which is in use from then on. */
  readonly hashKey: Uint8Array;
  /** Buckets kept, buckets that had expired, and logs for which SLIDING_LOG_BYTES_MAX has no room. */
  readonly kept: number;
  readonly ended: number;
  readonly withoutRoom: number;
}

/**
 * Reads all that has not ended by `nowUs` into empty buckets. Nothing is trusted: throws SnapshotRefused if anything is not as it is written;
 * the buckets must then be emptied. No other thread may use the memory meanwhile.
 */
export function readSnapshot(
  entries: Iterable<Float64Array>,
  memory: StoreMemory,
  buckets: Buckets,
  nowUs: number,
): ReadSnapshot {
  const intake = new Intake(buckets, nowUs);
  for (const entry of entries) {
    intake.take(entry);
    memory.commit();
  }
  const { beganAtUs, hashKey, kept, ended, withoutRoom } = intake;
  if (hashKey === undefined) refuse("the begin of a snapshot", "the end of the file");
  return { beganAtUs, hashKey, kept, ended, withoutRoom };
}

/** Takes entries into the buckets. */
class Intake {
  readonly #buckets: Buckets;
  readonly #nowUs: number;
  readonly #nowS: number;
  readonly #record = newRecord();
  readonly #log = new LogState();
  #entry: Float64Array = new Float64Array(0);
  #at = 0;
  beganAtUs = 0;
  hashKey: Buffer | undefined = undefined;
  kept = 0;
  ended = 0;
  withoutRoom = 0;

  constructor(buckets: Buckets, nowUs: number) {
    this.#buckets = buckets;
    this.#nowUs = nowUs;
    this.#nowS = divideDown(nowUs, MICROS_PER_SECOND);
    buckets.nowS = this.#nowS;
  }

  take(entry: Float64Array): void {
    this.#entry = entry;
    this.#at = 0;
    const kind = this.#number();
    if ((this.hashKey === undefined) !== (kind === Kind.begin)) this.#refuse("the begin of a snapshot, once");
    if (kind === Kind.begin) this.#begin();
    else if (kind === Kind.bucket) this.#takeBucket();
    else if (kind === Kind.log) this.#takeLog();
    else if (kind === Kind.holds) this.#takeHolds();
    else if (kind === Kind.settled) this.#takeSettled();
    else this.#refuse(`one of the kinds ${Object.values(Kind).join(", ")}`);
    if (this.#at !== entry.length) this.#refuse(`${this.#at} numbers`);
  }

  #refuse(expected: string): never {
    refuse(expected, `an entry of kind ${this.#entry[0]} with ${this.#entry.length} numbers`);
  }

  /** The next number, which is whole and at most `max`. */
  #number(max = Number.MAX_SAFE_INTEGER): number {
    const number = this.#entry[this.#at++] as number;
    if (!Number.isSafeInteger(number) || number < 0 || number > max)
      refuse(`a whole number of at most ${max}`, `${number}, number ${this.#at} of an entry of kind ${this.#entry[0]}`);
    return number;
  }

  #numbers(count: number): number[] {
    return Array.from({ length: count }, () => this.#number());
  }

  #id(): string {
    const length = this.#number(ID_BYTES_MAX);
    let id = "";
    while (id.length < length) {
      let number = this.#number();
      for (let i = 0; i < CHARS_PER_NUMBER && id.length < length; i++) {
        id += String.fromCharCode(number % 256);
        number = divideDown(number, 256);
      }
    }
    return id;
  }

  #begin(): void {
    this.beganAtUs = this.#number();
    this.hashKey = Buffer.from(this.#numbers(HASH_KEY_BYTES));
    // Ids of holds are hashed as they are taken.
    useHashKey(this.hashKey);
  }

  #readHash(): BucketRecord {
    const record = this.#record;
    record.keyHash = this.#number(WORD_MAX);
    record.keyHash1 = this.#number(WORD_MAX) | 0;
    record.keyHash2 = this.#number(WORD_MAX) | 0;
    record.keyHash3 = this.#number(WORD_MAX) | 0;
    return record;
  }

  #readBucket(): BucketRecord {
    const record = this.#readHash();
    record.expiresS = this.#number(WORD_MAX);
    record.atUs = this.#number();
    record.used = this.#number();
    record.previous = this.#number(WORD_MAX);
    return record;
  }

  #takeBucket(): void {
    this.#keep(this.#readBucket(), undefined);
  }

  #takeLog(): void {
    const record = this.#readHash();
    record.expiresS = this.#number(WORD_MAX);
    const payments = this.#entry.subarray(this.#at);
    this.#at = this.#entry.length;
    if (payments.length % 2 === 0 || payments.length < 3 || payments.length > 1 + 2 * LOG_PAYMENTS_MAX)
      this.#refuse(`a log of 1 to ${LOG_PAYMENTS_MAX} payments`);
    this.#log.restore(payments);
    if (!this.#log.isSound) this.#refuse("the payments of a log");
    this.#keep(record, this.#log);
  }

  #keep(record: BucketRecord, log: LogState | undefined): void {
    if (record.expiresS <= this.#nowS) this.ended++;
    else if (log === undefined || this.#buckets.hasRoomForLog(log.count)) {
      this.#buckets.writeRecord(record, log);
      this.kept++;
    } else this.withoutRoom++;
  }

  #takeSettled(): void {
    const record = this.#readHash();
    const forgetAtUs = this.#number();
    const id = this.#id();
    if (forgetAtUs > this.#nowUs) this.#buckets.holds.noteSettled(record, id, this.#nowUs, forgetAtUs);
  }

  #takeHolds(): void {
    const record = this.#readBucket();
    const limit = this.#numbers(LIMIT_NUMBERS) as unknown as LimitNumbers;
    if (!areOfLimit(limit)) this.#refuse("the numbers of a limit with holds");
    const lows = this.#numbers(this.#number(LOWS_MAX));
    const kept: KeptHold[] = [];
    while (this.#at < this.#entry.length) {
      const [cost = 0, paidAtUs = 0, endsAtUs = 0, payment = 0] = this.#numbers(4);
      kept.push({ id: this.#id(), cost, paidAtUs, endsAtUs, payment });
    }
    if (kept.length > HOLDS_PER_BUCKET_MAX) this.#refuse(`at most ${HOLDS_PER_BUCKET_MAX} holds of a bucket`);
    const book = this.#buckets.holds;
    // What the entry of the bucket alone says is of another moment.
    this.#buckets.removeKey(record);
    book.beginStep();
    book.drop(record);
    if (record.expiresS > this.#nowS) this.#buckets.writeRecord(record, undefined);
    book.keep(record, limitOfNumbers(limit), lows, kept);
  }
}
