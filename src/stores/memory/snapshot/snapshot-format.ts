// The bytes of a snapshot: a first line that names format and version, then chunks of entries. A chunk's checksum covers all bytes up to its
// end, so that no chunk can be lost, changed or taken from another file. Everything is 64-bit numbers in this machine's byte order, which the
// first line names; words lie two in a number.
//
//   24 bytes  "headgate snapshot 03 le\n"
//   chunk     4 bytes length of the entries, 4 bytes checksum (CRC-32), the entries
//   entry     its kind, then what the functions here write and read
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
import { HASH_KEY_BYTES, hashKeyInUse, useHashKey } from "../../../engine/domain/key-bytes.ts";
import { HOLDS_PER_BUCKET_MAX, LOG_PAYMENTS_MAX } from "../../../engine/domain/limit.ts";
import type { BucketRecord, Buckets } from "../buckets.ts";
import type { StoreMemory } from "../store-memory.ts";
import { ChunkReader, ChunkWriter, FIRST_LINE, type ReadBytes } from "./chunks.ts";

/** Kinds of entries. A file with another kind is refused, because ignoring it might lose buckets. */
const Kind = { begin: 1, bucket: 2, log: 3, holds: 4, settled: 5, end: 6 } as const;

/** A chunk is written once it has so many numbers; its last entry may take it beyond that, by some 130,000. */
const CHUNK_NUMBERS = 8_192;
/** Records that are read under one lock. */
const RECORDS_PER_LOCK = 64;
/** Most numbers of DebtLows. */
const LOWS_MAX = 3 + 2 * 64;

/** The content of a snapshot. A bucket with holds counts twice. */
export interface SnapshotCounts {
  buckets: number;
  logs: number;
}

const newRecord = (): BucketRecord => ({
  atUs: 0,
  used: 0,
  previous: 0,
  expiresS: 0,
  log: 0,
  keyHash: 0,
  keyHash1: 0,
  keyHash2: 0,
  keyHash3: 0,
});

/**
 * Yields the bytes of a snapshot of all that has not ended by `nowUs`, each piece valid until the next is asked for. Takes may come between
 * pieces, and in other threads at any time. `counts` is complete at the end.
 */
export function* piecesOf(
  memory: StoreMemory,
  buckets: Buckets,
  nowUs: number,
  counts: SnapshotCounts,
  chunkNumbers = CHUNK_NUMBERS,
): Generator<Uint8Array, void, void> {
  const chunk = new ChunkWriter();
  const isFull = () => chunk.size >= chunkNumbers;
  yield FIRST_LINE;
  chunk.add(Kind.begin);
  chunk.add(nowUs);
  const key = hashKeyInUse();
  for (let i = 0; i < HASH_KEY_BYTES; i += 8) chunk.addWords(key.readInt32LE(i), key.readInt32LE(i + 4));
  yield chunk.finish();
  for (const _ of writeRecords(memory, buckets, nowUs, chunk, counts)) if (isFull()) yield chunk.finish();
  for (const _ of writeHolds(memory, buckets, nowUs, chunk)) if (isFull()) yield chunk.finish();
  if (chunk.size > 0) yield chunk.finish();
  chunk.addAll([Kind.end, counts.buckets, counts.logs]);
  yield chunk.finish();
}

function* writeRecords(
  memory: StoreMemory,
  buckets: Buckets,
  nowUs: number,
  chunk: ChunkWriter,
  counts: SnapshotCounts,
): Generator<void, void, void> {
  const nowS = divideDown(nowUs, MICROS_PER_SECOND);
  const record = newRecord();
  const log = new LogState();
  for (let stripe = 0; stripe < memory.layout.stripes; stripe++) {
    for (let at = 1; at <= buckets.madeIn(stripe); ) {
      memory.want(stripe);
      memory.lock();
      // Records may be added meanwhile.
      const end = Math.min(at + RECORDS_PER_LOCK, buckets.madeIn(stripe) + 1);
      for (; at < end; at++) {
        if (!buckets.readRecord(stripe, at, nowS, record)) continue;
        if (record.log === 0) {
          writeBucket(chunk, Kind.bucket, record);
          counts.buckets++;
        } else {
          memory.lockLogsAndHolds();
          buckets.readLog(record.log, log);
          chunk.add(Kind.log);
          chunk.addHash(record);
          chunk.addWords(record.expiresS | 0, log.count);
          chunk.addAll(log.kept());
          counts.logs++;
        }
      }
      memory.commit();
      yield;
    }
  }
}

function writeBucket(chunk: ChunkWriter, kind: number, record: BucketRecord): void {
  chunk.add(kind);
  chunk.addHash(record);
  chunk.addWords(record.expiresS | 0, record.previous | 0);
  chunk.add(record.atUs);
  chunk.add(record.used);
}

/** The buckets with holds and the settled ids. */
function* writeHolds(
  memory: StoreMemory,
  buckets: Buckets,
  nowUs: number,
  chunk: ChunkWriter,
): Generator<void, void, void> {
  const { holds: book } = buckets;
  const nowS = divideDown(nowUs, MICROS_PER_SECOND);
  const record = newRecord();
  for (let at = 1; at <= book.made; at++) {
    memory.lockLogsAndHolds();
    const isBucket = book.isBucketAt(at, record);
    const settled = book.settledAt(at, record);
    memory.commit();
    if (settled !== undefined && settled.forgetAtUs > nowUs) {
      chunk.add(Kind.settled);
      chunk.addHash(record);
      chunk.addAll([settled.forgetAtUs, settled.id.length]);
      chunk.addId(settled.id);
    }
    if (isBucket) {
      memory.want(memory.stripeOf(record));
      memory.lock();
      memory.lockLogsAndHolds();
      writeHeld(chunk, buckets, nowS, record);
      memory.commit();
    }
    yield;
  }
}

/** Nothing, if the bucket has lost its holds. */
function writeHeld(chunk: ChunkWriter, buckets: Buckets, nowS: number, record: BucketRecord): void {
  const { holds: book } = buckets;
  book.beginStep();
  const holds = book.of(record);
  if (holds === undefined) return;
  if (!buckets.readKey(record, nowS, record)) Object.assign(record, { expiresS: 0, atUs: 0, used: 0, previous: 0 });
  writeBucket(chunk, Kind.holds, record);
  const lows = holds.lows.numbers();
  const live = book.live(holds);
  chunk.addAll([...numbersOfLimit(book.limitOf(holds)), lows.length, live.length, ...lows]);
  for (const { id, cost, paidAtUs, endsAtUs, payment } of live) {
    chunk.addAll([cost, paidAtUs, endsAtUs, payment, id.length]);
    chunk.addId(id);
  }
}

/** The result of reading a snapshot. */
export interface ReadSnapshot {
  readonly beganAtUs: number;
  /** The key of the snapshot's hashes, which is in use from then on. */
  readonly hashKey: Uint8Array;
  /** Bytes of the whole snapshot. */
  readonly bytes: number;
  /** Buckets kept, buckets that had expired, and logs for which SLIDING_LOG_BYTES_MAX has no room. */
  readonly kept: number;
  readonly ended: number;
  readonly withoutRoom: number;
}

/**
 * Reads all that has not ended by `nowUs` into empty buckets. Nothing is trusted: throws SnapshotRefused if anything is not as it is written;
 * the buckets must then be emptied. No other thread may use the memory meanwhile.
 */
export function readSnapshot(read: ReadBytes, memory: StoreMemory, buckets: Buckets, nowUs: number): ReadSnapshot {
  const reader = new ChunkReader(read);
  const intake = new Intake(reader, memory, buckets, nowUs);
  try {
    while (!intake.isComplete) {
      reader.nextChunk();
      while (!reader.isAtEnd) intake.takeEntry();
    }
    reader.expectEnd();
  } catch (error) {
    memory.rollBack();
    throw error;
  }
  const { beganAtUs, hashKey = Buffer.alloc(0), kept, ended, withoutRoom } = intake;
  return { beganAtUs, hashKey, bytes: reader.bytes, kept, ended, withoutRoom };
}

/** Takes entries into the buckets. */
class Intake {
  readonly #reader: ChunkReader;
  readonly #memory: StoreMemory;
  readonly #buckets: Buckets;
  readonly #nowUs: number;
  readonly #nowS: number;
  readonly #record = newRecord();
  readonly #log = new LogState();
  readonly #counts: SnapshotCounts = { buckets: 0, logs: 0 };
  isComplete = false;
  beganAtUs = 0;
  hashKey: Buffer | undefined = undefined;
  kept = 0;
  ended = 0;
  withoutRoom = 0;

  constructor(reader: ChunkReader, memory: StoreMemory, buckets: Buckets, nowUs: number) {
    this.#reader = reader;
    this.#memory = memory;
    this.#buckets = buckets;
    this.#nowUs = nowUs;
    this.#nowS = divideDown(nowUs, MICROS_PER_SECOND);
    buckets.nowS = this.#nowS;
  }

  takeEntry(): void {
    const reader = this.#reader;
    const kind = reader.number();
    if (this.isComplete) reader.refuse("the end of the file", `an entry of kind ${kind}`);
    if ((this.hashKey === undefined) !== (kind === Kind.begin))
      reader.refuse("the begin of a snapshot, once", `an entry of kind ${kind}`);
    if (kind === Kind.begin) this.#begin();
    else if (kind === Kind.bucket) this.#takeBucket();
    else if (kind === Kind.log) this.#takeLog();
    else if (kind === Kind.holds) this.#takeHolds();
    else if (kind === Kind.settled) this.#takeSettled();
    else if (kind === Kind.end) this.#end();
    else
      reader.refuse(
        `an entry of one of the kinds ${Object.values(Kind).join(", ")}`,
        `${kind}: another version of Headgate wrote it`,
      );
    this.#memory.commit();
  }

  #begin(): void {
    this.beganAtUs = this.#reader.whole("the time of the snapshot in microseconds");
    this.hashKey = Buffer.alloc(HASH_KEY_BYTES);
    for (let at = 0; at < HASH_KEY_BYTES; at += 8) {
      const [one, other] = this.#reader.words();
      this.hashKey.writeInt32LE(one, at);
      this.hashKey.writeInt32LE(other, at + 4);
    }
    // Ids of holds are hashed as they are taken.
    useHashKey(this.hashKey);
  }

  #readBucket(): BucketRecord {
    const record = this.#record;
    this.#reader.hash(record);
    const [expiresS, previous] = this.#reader.words();
    record.expiresS = expiresS >>> 0;
    record.previous = previous >>> 0;
    record.atUs = this.#reader.whole("the time of a bucket in microseconds");
    record.used = this.#reader.whole("what is used of a bucket");
    return record;
  }

  #takeBucket(): void {
    const record = this.#readBucket();
    this.#counts.buckets++;
    if (record.expiresS <= this.#nowS) {
      this.ended++;
      return;
    }
    this.#buckets.writeRecord(record, undefined);
    this.kept++;
  }

  #takeLog(): void {
    const reader = this.#reader;
    const record = this.#record;
    reader.hash(record);
    const [expiresS, count] = reader.words();
    if (count < 1 || count > LOG_PAYMENTS_MAX)
      reader.refuse(`a log of at most ${LOG_PAYMENTS_MAX} payments`, String(count));
    this.#log.begin(count);
    for (let i = 0; i < this.#log.length; i++) this.#log.numbers[i] = reader.number();
    if (!this.#log.isSound) reader.refuse("the payments of a log", "others");
    this.#counts.logs++;
    record.expiresS = expiresS >>> 0;
    if (record.expiresS <= this.#nowS) this.ended++;
    else if (this.#buckets.hasRoomForLog(count)) {
      this.#buckets.writeRecord(record, this.#log);
      this.kept++;
    } else this.withoutRoom++;
  }

  #takeHolds(): void {
    const reader = this.#reader;
    const record = this.#readBucket();
    const numbers = reader.wholes(LIMIT_NUMBERS, "a number of a limit") as unknown as LimitNumbers;
    if (!areOfLimit(numbers)) reader.refuse("the numbers of a limit with holds", numbers.join());
    const lowsCount = reader.whole("the number of lows", LOWS_MAX);
    const holdsCount = reader.whole("the number of holds", HOLDS_PER_BUCKET_MAX);
    const lows = reader.wholes(lowsCount, "a low");
    const kept = Array.from({ length: holdsCount }, (): KeptHold => {
      const [cost, paidAtUs, endsAtUs, payment] = reader.wholes(4, "a number of a hold") as [
        number,
        number,
        number,
        number,
      ];
      const id = reader.id(reader.whole("the length of an id", ID_BYTES_MAX));
      return { id, cost, paidAtUs, endsAtUs, payment };
    });
    const book = this.#buckets.holds;
    // What the entry of the bucket alone says is of another moment.
    this.#buckets.removeKey(record);
    book.beginStep();
    book.drop(record);
    if (record.expiresS > this.#nowS) this.#buckets.writeRecord(record, undefined);
    book.keep(record, limitOfNumbers(numbers), lows, kept);
  }

  #takeSettled(): void {
    const reader = this.#reader;
    reader.hash(this.#record);
    const forgetAtUs = reader.whole("when an id is forgotten");
    const id = reader.id(reader.whole("the length of an id", ID_BYTES_MAX));
    if (forgetAtUs > this.#nowUs) this.#buckets.holds.noteSettled(this.#record, id, this.#nowUs, forgetAtUs);
  }

  #end(): void {
    const [buckets, logs] = this.#reader.wholes(2, "a number of buckets");
    if (buckets !== this.#counts.buckets || logs !== this.#counts.logs)
      this.#reader.refuse(
        `the end after ${this.#counts.buckets} buckets and ${this.#counts.logs} logs`,
        `${buckets} and ${logs}`,
      );
    this.isComplete = true;
  }
}
