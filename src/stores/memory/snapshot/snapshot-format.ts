// What a snapshot says of a memory store, as entries of whole numbers (snapshot-entries.ts): when it was begun, with
// the key of the hashes; then each bucket, each settled id, and each bucket with holds. What an entry has is what the
// functions here write and read.
//
// A snapshot is written in turns, so two buckets may be of different moments between its begin and its end. A bucket
// with holds is written once more, with its holds, both of one moment: a hold without its payment would give back what
// nobody paid.

import { type LongWork, runInTurns } from "../../../base/long-work.ts";
import { divideDown, MICROS_PER_SECOND } from "../../../base/units.ts";
import {
  LIMIT_NUMBERS,
  type LimitNumbers,
  limitOfNumbers,
  numbersOfLimit,
} from "../../../engine/algorithms/held-limit.ts";
import type { KeptHold } from "../../../engine/algorithms/hold-book.ts";
import { ID_BYTES_MAX } from "../../../engine/algorithms/hold-tables.ts";
import { LogState } from "../../../engine/algorithms/log-state.ts";
import { hashKeyInUse, type KeyHash, newHash, useHashKey } from "../../../engine/domain/key-bytes.ts";
import type { BucketRecord, Buckets } from "../buckets.ts";
import type { MemoryStore } from "../memory-store.ts";
import { entriesToKeep } from "./snapshot-entries.ts";

/** Kinds of entries, their first number. Another kind needs another version (snapshot-entries.ts). */
const Kind = { begin: 1, bucket: 2, log: 3, holds: 4, settled: 5 } as const;
type Entry = ArrayLike<number>;

/** Records, or holds, that are read in one step. */
const RECORDS_PER_STEP = 64;
/** Bytes of an id in one number, which is below 2^53. */
const BYTES_PER_NUMBER = 6;
/** Most numbers of a hold: cost, two times, number of its payment, and the id. */
const HOLD_NUMBERS_MAX = 5 + Math.ceil(ID_BYTES_MAX / BYTES_PER_NUMBER);
/** Places in an entry: after kind and hash, and after the state of a bucket. */
const AFTER_HASH = 5;
const AFTER_BUCKET = 9;

const newRecord = (): BucketRecord => ({ ...newHash(), atUs: 0, used: 0, previous: 0, expiresS: 0, log: 0 });

/** Yields the entries of all that has not ended by `nowUs`, some at a time. Takes may come in between. */
export function* writeSnapshot(store: MemoryStore, nowUs: number): Generator<Entry[], void, void> {
  yield [[Kind.begin, nowUs, ...hashKeyInUse()]];
  yield* recordEntries(store.buckets, nowUs);
  yield* holdEntries(store, nowUs);
}

const hashOf = ({ keyHash, keyHash1, keyHash2, keyHash3 }: KeyHash) => [
  keyHash,
  keyHash1 >>> 0,
  keyHash2 >>> 0,
  keyHash3 >>> 0,
];

function bucketEntry(kind: number, record: BucketRecord): readonly number[] {
  const { expiresS, atUs, used, previous } = record;
  return [kind, ...hashOf(record), expiresS, atUs, used, previous];
}

/** Writes an id: its length, then its bytes. Returns the place after it. */
function writeId(id: Uint8Array, into: Float64Array, place: number): number {
  let at = place;
  into[at++] = id.length;
  for (let from = 0; from < id.length; from += BYTES_PER_NUMBER) {
    let number = 0;
    for (let i = Math.min(from + BYTES_PER_NUMBER, id.length) - 1; i >= from; i--) number = number * 256 + (id[i] ?? 0);
    into[at++] = number;
  }
  return at;
}

/** The buckets and logs. */
function* recordEntries(buckets: Buckets, nowUs: number): Generator<Entry[], void, void> {
  const nowS = divideDown(nowUs, MICROS_PER_SECOND);
  const record = newRecord();
  const log = new LogState();
  // Records may be added meanwhile.
  for (let at = 1; at <= buckets.made; ) {
    const entries: Entry[] = [];
    const end = Math.min(at + RECORDS_PER_STEP, buckets.made + 1);
    for (; at < end; at++) {
      if (!buckets.readRecord(at, nowS, record)) continue;
      if (record.log === 0) entries.push(bucketEntry(Kind.bucket, record));
      else {
        buckets.readLog(record.log, log);
        entries.push([Kind.log, ...hashOf(record), record.expiresS, ...log.kept()]);
      }
    }
    yield entries;
  }
}

/** The settled ids and the buckets with holds. */
function* holdEntries(store: MemoryStore, nowUs: number): Generator<Entry[], void, void> {
  const { holds: book } = store;
  const nowS = divideDown(nowUs, MICROS_PER_SECOND);
  const record = newRecord();
  for (let row = 1; row <= book.settledMade; row++) {
    const settled = book.settledAt(row, record);
    yield settled === undefined || settled.forgetAtUs <= nowUs ? [] : [settledEntry(record, settled)];
  }
  for (let row = 1; row <= book.bucketsMade; row++) {
    yield book.isBucketAt(row, record) ? heldEntry(store, nowS, record) : [];
  }
}

function settledEntry(hash: KeyHash, { id, forgetAtUs }: { readonly id: string; readonly forgetAtUs: number }): Entry {
  const entry = new Float64Array(AFTER_HASH + 1 + HOLD_NUMBERS_MAX);
  entry.set([Kind.settled, ...hashOf(hash), forgetAtUs]);
  return entry.subarray(0, writeId(Buffer.from(id, "latin1"), entry, AFTER_HASH + 1));
}

/**
 * None, if the bucket has lost its holds. One moment of thousands of holds in a step, so all goes straight into one
 * array.
 */
function heldEntry({ buckets, holds: book }: MemoryStore, nowS: number, record: BucketRecord): Entry[] {
  book.beginStep();
  const holds = book.of(record);
  if (holds === undefined) return [];
  if (!buckets.readKey(record, nowS, record)) Object.assign(record, { expiresS: 0, atUs: 0, used: 0, previous: 0 });
  const lows = holds.lows.numbers();
  const limit = numbersOfLimit(book.limitOf(holds));
  const head = [...bucketEntry(Kind.holds, record), ...limit, lows.length, ...lows];
  const entry = new Float64Array(head.length + book.sizeOf(holds) * HOLD_NUMBERS_MAX);
  entry.set(head);
  let at = head.length;
  book.eachLive(holds, ({ cost, paidAtUs, endsAtUs, payment }, id) => {
    entry[at] = cost;
    entry[at + 1] = paidAtUs;
    entry[at + 2] = endsAtUs;
    entry[at + 3] = payment;
    at = writeId(id, entry, at + 4);
  });
  return [entry.subarray(0, at)];
}

/** The result of reading a snapshot. */
export interface ReadSnapshot {
  beganAtUs: number;
  /** The key of the snapshot's hashes, which is in use from then on. */
  hashKey: Uint8Array;
  /** Buckets kept, buckets that had expired, and logs for which there is no room. */
  kept: number;
  ended: number;
  withoutRoom: number;
}

/**
 * Reads all that has not ended by `nowUs` into an empty store, in turns. If `blocks` throws, what is in it is not to be
 * used.
 */
export async function readSnapshot(
  blocks: AsyncIterable<Float64Array>,
  store: MemoryStore,
  nowUs: number,
): Promise<ReadSnapshot> {
  const reader = new SnapshotReader(store, nowUs);
  for await (const block of blocks) await runInTurns(reader.take(block));
  return reader.read;
}

class SnapshotReader {
  readonly read: ReadSnapshot = { beganAtUs: 0, hashKey: hashKeyInUse(), kept: 0, ended: 0, withoutRoom: 0 };
  readonly #store: MemoryStore;
  readonly #nowUs: number;
  readonly #nowS: number;
  readonly #log = new LogState();

  constructor(store: MemoryStore, nowUs: number) {
    this.#store = store;
    this.#nowUs = nowUs;
    this.#nowS = divideDown(nowUs, MICROS_PER_SECOND);
    store.buckets.nowS = this.#nowS;
  }

  *take(block: Float64Array): LongWork<void> {
    let taken = 0;
    for (const entry of entriesToKeep(block)) {
      if (entry[0] === Kind.holds) yield* takeHolds(this.#store, entry, this.#nowS);
      else this.#take(entry);
      if (++taken % RECORDS_PER_STEP === 0) yield;
    }
  }

  #take(entry: Float64Array): void {
    const kind = entry[0];
    if (kind === Kind.begin) {
      this.read.beganAtUs = entry[1] as number;
      this.read.hashKey = Buffer.from(entry.subarray(2));
      // Ids of holds are hashed as they are taken.
      useHashKey(Buffer.from(this.read.hashKey));
    } else if (kind === Kind.bucket) this.#keep(bucketIn(entry), undefined);
    else if (kind === Kind.log) {
      this.#log.restore(entry.subarray(AFTER_HASH + 1));
      this.#keep(bucketIn(entry), this.#log);
    } else {
      const forgetAtUs = entry[AFTER_HASH] as number;
      const id = idIn(entry, AFTER_HASH + 1);
      if (forgetAtUs > this.#nowUs) this.#store.holds.noteSettled(bucketIn(entry), id, this.#nowUs, forgetAtUs);
    }
  }

  #keep(record: BucketRecord, log: LogState | undefined): void {
    const { buckets } = this.#store;
    if (record.expiresS <= this.#nowS) this.read.ended++;
    else if (log === undefined || buckets.hasRoomForLog(log)) {
      buckets.writeRecord(record, log);
      this.read.kept++;
    } else this.read.withoutRoom++;
  }
}

/** The bucket of an entry; its state means nothing in entries of another kind than `bucket` and `holds`. */
function bucketIn(entry: Float64Array): BucketRecord {
  const at = (place: number) => entry[place] ?? 0;
  return {
    keyHash: at(1),
    keyHash1: at(2) | 0,
    keyHash2: at(3) | 0,
    keyHash3: at(4) | 0,
    expiresS: at(5),
    atUs: at(6),
    used: at(7),
    previous: at(8),
    log: 0,
  };
}

/** The id whose length is at that place. */
function idIn(entry: Float64Array, at: number): string {
  const length = entry[at] as number;
  let id = "";
  for (let next = at + 1; id.length < length; next++) {
    let number = entry[next] as number;
    for (let i = 0; i < BYTES_PER_NUMBER && id.length < length; i++) {
      id += String.fromCharCode(number % 256);
      number = divideDown(number, 256);
    }
  }
  return id;
}

function* takeHolds({ buckets, holds: book }: MemoryStore, entry: Float64Array, nowS: number): LongWork<void> {
  const record = bucketIn(entry);
  const limit = [...entry.subarray(AFTER_BUCKET, AFTER_BUCKET + LIMIT_NUMBERS)] as unknown as LimitNumbers;
  const lowsAt = AFTER_BUCKET + LIMIT_NUMBERS;
  let at = lowsAt + 1 + (entry[lowsAt] as number);
  const lows = [...entry.subarray(lowsAt + 1, at)];
  // What the entry of the bucket alone says is of another moment.
  buckets.removeKey(record);
  book.beginStep();
  book.drop(record);
  if (record.expiresS > nowS) buckets.writeRecord(record, undefined);
  while (at < entry.length) {
    const kept: KeptHold[] = [];
    while (at < entry.length && kept.length < RECORDS_PER_STEP) {
      const [cost = 0, paidAtUs = 0, endsAtUs = 0, payment = 0] = entry.subarray(at, at + 4);
      const id = idIn(entry, at + 4);
      kept.push({ id, cost, paidAtUs, endsAtUs, payment });
      at += 5 + Math.ceil(id.length / BYTES_PER_NUMBER);
    }
    book.beginStep();
    book.keep(record, limitOfNumbers(limit), lows, kept);
    yield;
  }
}
