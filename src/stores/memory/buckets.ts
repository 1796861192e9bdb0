// The buckets of a memory store, in memory that threads share (store-memory.ts): a record of fixed size each, found by the hash of its key. A
// record does not move while its bucket lives, so a bucket's size does not depend on its key, and a walk over the records misses none.
// Settlement and time are elsewhere.

import { HoldBook } from "../../engine/algorithms/hold-book.ts";
import type { HoldCounts } from "../../engine/algorithms/hold-counts.ts";
import { LogBlocks } from "../../engine/algorithms/log-blocks.ts";
import type { LogState } from "../../engine/algorithms/log-state.ts";
import type { BucketAccess, BucketNumbers, WorkingBucket } from "../../engine/algorithms/working-bucket.ts";
import { type ClockShift, NO_SHIFT } from "../../engine/base/clock.ts";
import type { JournaledMemory } from "../../engine/base/journaled-memory.ts";
import { divideUp, MICROS_PER_SECOND } from "../../engine/base/units.ts";
import { isHashAt, type KeyHash, readHash, writeHash } from "../../engine/domain/key-bytes.ts";
import { Algorithm } from "../../engine/domain/limit.ts";
import { type MemoryLayout, RECORD_WORDS, STRIPE_WORDS, type StoreMemory } from "./store-memory.ts";

/** Buckets that eviction compares, in memory order, to find the one that expires soonest. */
const EVICT_LOOKS = 8;
/** Buckets that it compares if none of the first ones expires as soon as recently evicted ones did. */
const EVICT_LOOKS_MAX = 64;
/** Records that are swept whenever a bucket is added. */
const SWEEP_PER_ADD = 8;
const EXPIRES_S_MAX = 0xffff_ffff;
const LEFT_S_MAX = 2 ** 30;

// Words of a stripe's head after its lock: number of buckets, records ever in use at once, first free record, the next records of the sweep
// and of the search for a bucket to evict, and how many seconds recently evicted buckets had left: one with as few may be evicted at once.
const COUNT = 1;
const MADE = 2;
const FREE = 3;
const SWEEP_AT = 4;
const EVICT_AT = 5;
const EVICTED_LEFT_S = 6;

// Numbers of a record, then words. In NEXT is the next record of the chain, or of the free ones, counted from 1 within the stripe. In
// EXPIRES_S is 0 if the record is free.
const AT_US = 0;
const USED = 1;
const PREVIOUS = 4;
const EXPIRES_S = 5;
const HASH = 6;
const NEXT = 10;
/** USED of a bucket with a sliding log; AT_US is then the place of the log. */
const IS_LOG = -1;

/** The content of a record. `log` is the place of its log, 0 if it has numbers. */
export interface BucketRecord extends BucketNumbers, KeyHash {
  expiresS: number;
  log: number;
}

interface BucketsOptions {
  /** Gets the number of buckets that had not expired when they were dropped for lack of room. */
  readonly onEvicted: (buckets: number) => void;
  readonly holdCounts?: HoldCounts;
  readonly shift?: Readonly<ClockShift> | undefined;
}

/** Buckets by key. Callers hold the lock of the bucket's stripe, and for logs and holds theirs. */
export class Buckets implements BucketAccess {
  readonly holds: HoldBook;
  readonly #blocks: LogBlocks;
  readonly #store: StoreMemory;
  readonly #memory: JournaledMemory;
  readonly #layout: MemoryLayout;
  readonly #words: Int32Array;
  readonly #numbers: Float64Array;
  readonly #firstChain: number;
  readonly #firstRecord: number;
  readonly #onEvicted: (buckets: number) => void;
  /** Changes whenever a record may have been freed. */
  #version = 0;

  /** The second of the present take, and the one up to which buckets have to expire to be dropped. */
  nowS = 0;
  endedS = 0;
  readonly shift: Readonly<ClockShift>;

  constructor(store: StoreMemory, { onEvicted, holdCounts, shift = NO_SHIFT }: BucketsOptions) {
    this.shift = shift;
    const { memory, layout } = store;
    this.#store = store;
    this.#memory = memory;
    this.#layout = layout;
    this.#words = memory.words;
    this.#numbers = memory.numbers;
    this.#firstChain = layout.chainsAt / 4;
    this.#firstRecord = layout.recordsAt / 4;
    this.#onEvicted = onEvicted;
    this.#blocks = new LogBlocks(memory, { at: layout.logsAt, bytes: layout.logBytes });
    this.holds = new HoldBook(layout.holdsMax, { memory, at: layout.holdsAt }, holdCounts);
  }

  /** Number of buckets, with expired ones that have not been swept. */
  get count(): number {
    return this.#sumOf(COUNT);
  }

  /** Bytes of records and logs, free places between them included. */
  get bytes(): number {
    return this.#sumOf(MADE) * RECORD_WORDS * 4 + this.#layout.recordsAt + this.#blocks.bytes;
  }

  /** Bytes of the blocks that logs use now. */
  get logBytes(): number {
    return this.#blocks.usedBytes;
  }

  load(bucket: WorkingBucket): boolean {
    const record = this.#find(bucket);
    bucket.place = record;
    bucket.placeVersion = this.#version;
    if (record < 0) return false;
    // A counter's key may come again after its time, with a longer unit whose window began at the same second.
    if (bucket.limit?.isCounter === true && this.#expiresS(record) <= this.nowS) return false;
    const log = this.#logOf(record);
    // A key contains its algorithm, so this does not happen. Still, numbers must never be read as a log.
    if ((log !== 0) !== (bucket.algorithm === Algorithm.slidingLog)) return false;
    if (log === 0) this.#readNumbers(record, bucket.state);
    else this.#blocks.read(log, bucket.useLog());
    return true;
  }

  save(bucket: WorkingBucket, expiresAtUs: number): void {
    const known = this.#recordOf(bucket);
    const record = known < 0 ? this.#add(bucket) : known;
    const expiresS = Math.min(divideUp(expiresAtUs, MICROS_PER_SECOND), EXPIRES_S_MAX);
    this.#write(record, bucket.state, bucket.log, expiresS);
  }

  extend(bucket: WorkingBucket, expiresAtUs: number): void {
    const record = this.#recordOf(bucket);
    const expiresS = Math.min(divideUp(expiresAtUs, MICROS_PER_SECOND), EXPIRES_S_MAX);
    if (record >= 0 && this.#expiresS(record) < expiresS) this.#memory.setWord(record + EXPIRES_S, expiresS);
  }

  remove(bucket: WorkingBucket): void {
    const record = this.#recordOf(bucket);
    if (record >= 0) this.#drop(this.#store.stripeOf(bucket), record);
  }

  /** Looks at the next records of the stripe, at most `looks`, and drops the buckets that have expired by `endedS`. */
  sweep(stripe: number, looks: number, endedS: number): void {
    const head = stripe * STRIPE_WORDS;
    const made = this.#words[head + MADE] as number;
    let at = this.#words[head + SWEEP_AT] as number;
    for (let left = Math.min(looks, made); left > 0; left--) {
      at = at < made ? at + 1 : 1;
      const record = this.#recordAt(stripe, at);
      const expiresS = this.#expiresS(record);
      if (expiresS !== 0 && expiresS <= endedS) this.#drop(stripe, record);
    }
    this.#words[head + SWEEP_AT] = at;
  }

  /** Records of the stripe that are or were in use; `readRecord` takes numbers from 1 to this. */
  madeIn(stripe: number): number {
    return this.#words[stripe * STRIPE_WORDS + MADE] as number;
  }

  /** Reads the stripe's record of that number. False if it has no bucket that expires after `nowS`. */
  readRecord(stripe: number, at: number, nowS: number, into: BucketRecord): boolean {
    return this.#read(this.#recordAt(stripe, at), nowS, into);
  }

  /** Reads the bucket of that key. False if there is none that expires after `nowS`. */
  readKey(key: KeyHash, nowS: number, into: BucketRecord): boolean {
    const record = this.#find(key);
    return record >= 0 && this.#read(record, nowS, into);
  }

  removeKey(key: KeyHash): void {
    const record = this.#find(key);
    if (record >= 0) this.#drop(this.#store.stripeOf(key), record);
  }

  hasRoomForPayment(log: LogState): boolean {
    return this.#blocks.hasRoomForPayment(log);
  }

  /** Whether there is room for one more log of `count` payments. */
  hasRoomForLog(count: number): boolean {
    return this.#blocks.hasRoomFor(count);
  }

  /** Forgets all buckets, logs and holds. No other thread may use the memory. */
  clear(): void {
    this.holds.clear();
    this.#blocks.clear();
    const words = this.#words;
    for (let stripe = 0; stripe < this.#layout.stripes; stripe++) {
      for (let at = 1; at <= this.madeIn(stripe); at++) {
        const record = this.#recordAt(stripe, at);
        words[this.#chainOf(stripe, words[record + HASH + 1] as number)] = 0;
        words[record + EXPIRES_S] = 0;
      }
      words.fill(0, stripe * STRIPE_WORDS + COUNT, (stripe + 1) * STRIPE_WORDS);
    }
    this.#version++;
  }

  #read(record: number, nowS: number, into: BucketRecord): boolean {
    into.expiresS = this.#expiresS(record);
    if (into.expiresS <= nowS) return false;
    into.log = this.#logOf(record);
    if (into.log === 0) this.#readNumbers(record, into);
    readHash(this.#words, record + HASH, into);
    return true;
  }

  readLog(log: number, into: LogState): void {
    this.#blocks.read(log, into);
  }

  /** Writes a bucket, in place of one of the same key. Room for its log must have been reserved. */
  writeRecord(bucket: BucketRecord, log: LogState | undefined): void {
    const known = this.#find(bucket);
    this.#write(known < 0 ? this.#add(bucket) : known, bucket, log, bucket.expiresS);
  }

  #write(record: number, { atUs, used, previous }: BucketNumbers, log: LogState | undefined, expiresS: number): void {
    const memory = this.#memory;
    const kept = this.#logOf(record);
    memory.setWord(record + EXPIRES_S, expiresS | 0);
    if (log !== undefined) {
      memory.setNumber(record / 2 + AT_US, this.#blocks.write(kept, log));
      memory.setNumber(record / 2 + USED, IS_LOG);
      return;
    }
    if (kept !== 0) this.#dropLog(kept);
    memory.setNumber(record / 2 + AT_US, atUs);
    memory.setNumber(record / 2 + USED, used);
    memory.setWord(record + PREVIOUS, previous | 0);
  }

  #sumOf(word: number): number {
    let sum = 0;
    for (let stripe = 0; stripe < this.#layout.stripes; stripe++)
      sum += this.#words[stripe * STRIPE_WORDS + word] as number;
    return sum;
  }

  /** First word of the bucket's record, negative if it does not exist. The one that it was loaded from counts if none was freed since. */
  #recordOf(bucket: WorkingBucket): number {
    if (bucket.place >= 0 && bucket.placeVersion === this.#version) return bucket.place;
    return this.#find(bucket);
  }

  /** First word of a stripe's record; they are counted from 1. */
  #recordAt(stripe: number, at: number): number {
    return this.#firstRecord + (stripe * this.#layout.stripeBuckets + at - 1) * RECORD_WORDS;
  }

  #numberOf(stripe: number, record: number): number {
    return (record - this.#recordAt(stripe, 1)) / RECORD_WORDS + 1;
  }

  #chainOf(stripe: number, keyHash1: number): number {
    const { stripeChains } = this.#layout;
    return this.#firstChain + stripe * stripeChains + (keyHash1 & (stripeChains - 1));
  }

  #find(key: KeyHash): number {
    const words = this.#words;
    const stripe = this.#store.stripeOf(key);
    for (let at = words[this.#chainOf(stripe, key.keyHash1)] as number; at !== 0; ) {
      const record = this.#recordAt(stripe, at);
      if (isHashAt(words, record + HASH, key)) return record;
      at = words[record + NEXT] as number;
    }
    return -1;
  }

  /** A new record for a key that has none; it expires at once. */
  #add(key: KeyHash): number {
    const memory = this.#memory;
    const words = this.#words;
    const stripe = this.#store.stripeOf(key);
    const head = stripe * STRIPE_WORDS;
    this.sweep(stripe, SWEEP_PER_ADD, this.endedS);
    if ((words[head + COUNT] as number) >= this.#layout.stripeBuckets) this.#evict(stripe);
    let at = words[head + FREE] as number;
    if (at === 0) {
      at = (words[head + MADE] as number) + 1;
      memory.setWord(head + MADE, at);
    } else memory.setWord(head + FREE, words[this.#recordAt(stripe, at) + NEXT] as number);
    memory.setWord(head + COUNT, (words[head + COUNT] as number) + 1);
    const record = this.#recordAt(stripe, at);
    memory.setNumber(record / 2 + AT_US, 0);
    memory.setNumber(record / 2 + USED, 0);
    memory.setWord(record + EXPIRES_S, 1);
    writeHash(memory, record + HASH, key);
    const chain = this.#chainOf(stripe, key.keyHash1);
    memory.setWord(record + NEXT, words[chain] as number);
    memory.setWord(chain, at);
    return record;
  }

  /** Drops, of the next few buckets of a full stripe, the one that expires soonest. Keys lie in random order, so these are as good as any. */
  #evict(stripe: number): void {
    const words = this.#words;
    const head = stripe * STRIPE_WORDS;
    const leftS = words[head + EVICTED_LEFT_S] as number;
    let soonest = -1;
    let soonestS = Number.POSITIVE_INFINITY;
    let at = words[head + EVICT_AT] as number;
    for (let looks = 0; looks < EVICT_LOOKS_MAX; looks++) {
      if (looks >= EVICT_LOOKS && soonestS <= this.nowS + leftS) break;
      at = at < this.#layout.stripeBuckets ? at + 1 : 1;
      const record = this.#recordAt(stripe, at);
      const expiresS = this.#expiresS(record);
      if (expiresS >= soonestS) continue;
      soonest = record;
      soonestS = expiresS;
    }
    words[head + EVICT_AT] = at;
    words[head + EVICTED_LEFT_S] = Math.max(0, Math.min(soonestS - this.nowS, leftS * 2 + 1, LEFT_S_MAX));
    if (soonestS > this.nowS) this.#onEvicted(1);
    this.#drop(stripe, soonest);
  }

  #drop(stripe: number, record: number): void {
    const memory = this.#memory;
    const words = this.#words;
    const head = stripe * STRIPE_WORDS;
    const log = this.#logOf(record);
    if (log !== 0) this.#dropLog(log);
    const at = this.#numberOf(stripe, record);
    const next = words[record + NEXT] as number;
    const chain = this.#chainOf(stripe, words[record + HASH + 1] as number);
    if (words[chain] === at) memory.setWord(chain, next);
    else {
      let before = this.#recordAt(stripe, words[chain] as number);
      while (words[before + NEXT] !== at) before = this.#recordAt(stripe, words[before + NEXT] as number);
      memory.setWord(before + NEXT, next);
    }
    memory.setWord(record + EXPIRES_S, 0);
    memory.setWord(record + NEXT, words[head + FREE] as number);
    memory.setWord(head + FREE, at);
    memory.setWord(head + COUNT, (words[head + COUNT] as number) - 1);
    this.#version++;
  }

  #dropLog(log: number): void {
    this.#store.lockLogsAndHolds();
    this.#blocks.drop(log);
  }

  #expiresS(record: number): number {
    return (this.#words[record + EXPIRES_S] as number) >>> 0;
  }

  /** Place of the record's log; 0 if the record has numbers. */
  #logOf(record: number): number {
    return this.#numbers[record / 2 + USED] === IS_LOG ? (this.#numbers[record / 2 + AT_US] as number) : 0;
  }

  #readNumbers(record: number, into: BucketNumbers): void {
    into.atUs = this.#numbers[record / 2 + AT_US] as number;
    into.used = this.#numbers[record / 2 + USED] as number;
    into.previous = (this.#words[record + PREVIOUS] as number) >>> 0;
  }
}
