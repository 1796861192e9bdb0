// The buckets of a memory store: a record of fixed size each, found by the hash of its key. A record does not move
// while its bucket lives, so a bucket's size does not depend on its key, and a walk over the records misses none.
// Settlement and time are elsewhere.

import { type ClockShift, NO_SHIFT } from "../../base/clock.ts";
import { Reserved } from "../../base/reserved.ts";
import { divideUp, MICROS_PER_SECOND } from "../../base/units.ts";
import type { LogState } from "../../engine/algorithms/log-state.ts";
import { NumberLists } from "../../engine/algorithms/number-lists.ts";
import type { BucketAccess, BucketNumbers, WorkingBucket } from "../../engine/algorithms/working-bucket.ts";
import { isHashAt, type KeyHash, readHash, writeHash } from "../../engine/domain/key-bytes.ts";
import { Algorithm } from "../../engine/domain/limit.ts";
import { GROUP_WEIGHT_MAX } from "../../engine/domain/take.ts";

/** Bounds of a small store; the service has its own (process/app/open-store.ts). */
const BUCKETS_MAX_DEFAULT = 16_383;
const LOG_BYTES_MAX_DEFAULT = 16_777_216;

/** Bytes of a block of a log: 31 numbers. */
export const LOG_BLOCK_BYTES = 256;
/** Blocks beyond the bound: the takes of one group need at most one more each. */
const SPARE_BLOCKS = GROUP_WEIGHT_MAX;

/** Buckets that eviction compares, in memory order, to find the one that expires soonest. */
const EVICT_LOOKS = 8;
/** Buckets that it compares if none of the first ones expires as soon as recently evicted ones did. */
const EVICT_LOOKS_MAX = 64;
/** Records that are swept whenever a bucket is added. */
const SWEEP_PER_ADD = 8;
const EXPIRES_S_MAX = 0xffff_ffff;
const LEFT_S_MAX = 2 ** 30;

/** Words of a record. */
const RECORD_WORDS = 12;
// Numbers of a record, then words. In NEXT is the next record of the chain, or of the free ones, counted from 1. In
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

/** Bounds of a memory store. */
export interface MemoryBounds {
  /** Most buckets, at least 1. */
  readonly bucketsMax?: number;
  /** Most bytes of sliding logs; a take that needs more is left unanswered. */
  readonly logBytesMax?: number;
}

interface BucketsOptions extends MemoryBounds {
  /** Shared with what else the store keeps. Default: memory of its own. */
  readonly memory?: Reserved;
  /** Gets the number of buckets that had not expired when they were dropped for lack of room. */
  readonly onEvicted: (buckets: number) => void;
  readonly shift?: Readonly<ClockShift> | undefined;
}

/** Buckets by key. */
export class Buckets implements BucketAccess {
  readonly shift: Readonly<ClockShift>;
  readonly #bucketsMax: number;
  readonly #logBlocksMax: number;
  readonly #logs: NumberLists;
  readonly #numbers: Float64Array;
  readonly #words: Int32Array;
  readonly #chains: Int32Array;
  readonly #onEvicted: (buckets: number) => void;
  /** Records ever in use at once; the first free record, 0 if there isn't one. */
  #made = 0;
  #free = 0;
  /** The records at which the last sweep, and the last search for a bucket to evict, ended. */
  #sweptAt = 0;
  #evictedAt = 0;
  /** How many seconds recently evicted buckets had left: one with as few may be evicted at once. */
  #evictedLeftS = 0;
  /** Changes whenever a record may have been freed. */
  #version = 0;

  /** Number of buckets, with expired ones that have not been swept. */
  count = 0;
  /** The second of the present take, and the one up to which buckets have to expire to be dropped. */
  nowS = 0;
  endedS = 0;

  /** Throws RangeError if the system does not give so many addresses. */
  constructor({
    memory = new Reserved(),
    bucketsMax = BUCKETS_MAX_DEFAULT,
    logBytesMax = LOG_BYTES_MAX_DEFAULT,
    onEvicted,
    shift = NO_SHIFT,
  }: BucketsOptions) {
    this.shift = shift;
    this.#bucketsMax = bucketsMax;
    this.#onEvicted = onEvicted;
    this.#logBlocksMax = Math.floor(logBytesMax / LOG_BLOCK_BYTES);
    this.#chains = memory.words(2 ** Math.ceil(Math.log2(bucketsMax + 1)));
    this.#numbers = memory.numbers(((bucketsMax + 1) * RECORD_WORDS) / 2);
    this.#words = new Int32Array(this.#numbers.buffer, this.#numbers.byteOffset, 2 * this.#numbers.length);
    this.#logs = new NumberLists(memory, this.#logBlocksMax + SPARE_BLOCKS, LOG_BLOCK_BYTES);
  }

  /** Bytes of records and logs, free places between them included. */
  get bytes(): number {
    return this.#made * RECORD_WORDS * 4 + this.#chains.byteLength + this.#logs.made * LOG_BLOCK_BYTES;
  }

  /** Bytes of the blocks that logs use now. */
  get logBytes(): number {
    return this.#logs.used * LOG_BLOCK_BYTES;
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
    else this.readLog(log, bucket.useLog());
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
    if (record >= 0 && this.#expiresS(record) < expiresS) this.#words[record + EXPIRES_S] = expiresS;
  }

  remove(bucket: WorkingBucket): void {
    const record = this.#recordOf(bucket);
    if (record >= 0) this.#drop(record);
  }

  /** Looks at the next records, at most `looks`, and drops the buckets that have expired by `endedS`. */
  sweep(looks: number, endedS: number): void {
    const made = this.#made;
    for (let left = Math.min(looks, made); left > 0; left--) {
      this.#sweptAt = this.#sweptAt < made ? this.#sweptAt + 1 : 1;
      const record = recordAt(this.#sweptAt);
      const expiresS = this.#expiresS(record);
      if (expiresS !== 0 && expiresS <= endedS) this.#drop(record);
    }
  }

  /** Records that are or were in use; `readRecord` takes numbers from 1 to this. */
  get made(): number {
    return this.#made;
  }

  /** Reads the record of that number. False if it has no bucket that expires after `nowS`. */
  readRecord(at: number, nowS: number, into: BucketRecord): boolean {
    return this.#read(recordAt(at), nowS, into);
  }

  /** Reads the bucket of that key. False if there isn't one that expires after `nowS`. */
  readKey(key: KeyHash, nowS: number, into: BucketRecord): boolean {
    const record = this.#find(key);
    return record >= 0 && this.#read(record, nowS, into);
  }

  removeKey(key: KeyHash): void {
    const record = this.#find(key);
    if (record >= 0) this.#drop(record);
  }

  hasRoomForPayment(log: LogState): boolean {
    const needsBlock = log.count === 0 || this.#logs.blocksOf(log.length + 2) > this.#logs.blocksOf(log.length);
    return log.joins || !needsBlock || this.#logs.used < this.#logBlocksMax;
  }

  /** Whether there is room for one more log of so many numbers. */
  hasRoomForLog({ length }: LogState): boolean {
    return this.#logs.used + this.#logs.blocksOf(length) <= this.#logBlocksMax;
  }

  /** Forgets all buckets and logs. */
  clear(): void {
    this.#logs.clear();
    for (let at = 1; at <= this.#made; at++) {
      const record = recordAt(at);
      this.#chains[this.#chainOf(this.#words[record + HASH + 1] as number)] = 0;
      this.#words[record + EXPIRES_S] = 0;
    }
    this.count = 0;
    this.#made = 0;
    this.#free = 0;
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
    into.begin((this.#logs.lengthOf(log) - 1) / 2);
    this.#logs.read(log, into.numbers);
  }

  /** Writes a bucket, in place of one of the same key. Room for its log must have been reserved. */
  writeRecord(bucket: BucketRecord, log: LogState | undefined): void {
    const known = this.#find(bucket);
    this.#write(known < 0 ? this.#add(bucket) : known, bucket, log, bucket.expiresS);
  }

  #write(record: number, { atUs, used, previous }: BucketNumbers, log: LogState | undefined, expiresS: number): void {
    const kept = this.#logOf(record);
    this.#words[record + EXPIRES_S] = expiresS | 0;
    if (log !== undefined) {
      this.#numbers[record / 2 + AT_US] = this.#logs.write(kept, log.numbers, log.length);
      this.#numbers[record / 2 + USED] = IS_LOG;
      return;
    }
    if (kept !== 0) this.#logs.drop(kept);
    this.#numbers[record / 2 + AT_US] = atUs;
    this.#numbers[record / 2 + USED] = used;
    this.#words[record + PREVIOUS] = previous | 0;
  }

  /**
   * First word of the bucket's record, negative if it does not exist. The one that it was loaded from counts if none
   * was freed since.
   */
  #recordOf(bucket: WorkingBucket): number {
    if (bucket.place >= 0 && bucket.placeVersion === this.#version) return bucket.place;
    return this.#find(bucket);
  }

  #chainOf(keyHash1: number): number {
    return keyHash1 & (this.#chains.length - 1);
  }

  #find(key: KeyHash): number {
    const words = this.#words;
    for (let at = this.#chains[this.#chainOf(key.keyHash1)] as number; at !== 0; ) {
      const record = recordAt(at);
      if (isHashAt(words, record + HASH, key)) return record;
      at = words[record + NEXT] as number;
    }
    return -1;
  }

  /** A new record for a key that has none; it expires at once. */
  #add(key: KeyHash): number {
    this.sweep(SWEEP_PER_ADD, this.endedS);
    if (this.count >= this.#bucketsMax) this.#evict();
    const at = this.#free === 0 ? ++this.#made : this.#free;
    const record = recordAt(at);
    if (at === this.#free) this.#free = this.#words[record + NEXT] as number;
    this.count++;
    this.#numbers[record / 2 + AT_US] = 0;
    this.#numbers[record / 2 + USED] = 0;
    this.#words[record + EXPIRES_S] = 1;
    writeHash(this.#words, record + HASH, key);
    const chain = this.#chainOf(key.keyHash1);
    this.#words[record + NEXT] = this.#chains[chain] as number;
    this.#chains[chain] = at;
    return record;
  }

  /**
   * Drops, of the next few buckets of a full store, the one that expires soonest. Keys lie in random order, so these
   * are as good as any.
   */
  #evict(): void {
    const enoughS = this.nowS + this.#evictedLeftS;
    let soonest = -1;
    let soonestS = Number.POSITIVE_INFINITY;
    for (let looks = 0; looks < EVICT_LOOKS_MAX; looks++) {
      if (looks >= EVICT_LOOKS && soonestS <= enoughS) break;
      this.#evictedAt = this.#evictedAt < this.#bucketsMax ? this.#evictedAt + 1 : 1;
      const record = recordAt(this.#evictedAt);
      const expiresS = this.#expiresS(record);
      if (expiresS >= soonestS) continue;
      soonest = record;
      soonestS = expiresS;
    }
    this.#evictedLeftS = Math.max(0, Math.min(soonestS - this.nowS, this.#evictedLeftS * 2 + 1, LEFT_S_MAX));
    if (soonestS > this.nowS) this.#onEvicted(1);
    this.#drop(soonest);
  }

  #drop(record: number): void {
    const words = this.#words;
    const log = this.#logOf(record);
    if (log !== 0) this.#logs.drop(log);
    const at = record / RECORD_WORDS;
    const next = words[record + NEXT] as number;
    const chain = this.#chainOf(words[record + HASH + 1] as number);
    if (this.#chains[chain] === at) this.#chains[chain] = next;
    else {
      let before = recordAt(this.#chains[chain] as number);
      while (words[before + NEXT] !== at) before = recordAt(words[before + NEXT] as number);
      words[before + NEXT] = next;
    }
    words[record + EXPIRES_S] = 0;
    words[record + NEXT] = this.#free;
    this.#free = at;
    this.count--;
    this.#version++;
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

/** First word of a record; they are counted from 1. */
function recordAt(at: number): number {
  return at * RECORD_WORDS;
}
