// All buckets of the memory store by key: which page a key's record is in, how many there may be, what goes when there is
// no more room. Settlement and time stay outside.

import type { BucketAccess, WorkingBucket } from "../../algorithms/bucket-access.ts";
import { HoldBook } from "../../algorithms/hold-book.ts";
import { LogBlocks } from "../../algorithms/log-blocks.ts";
import type { KeyHash } from "../../core/key-hash.ts";
import { Algorithm } from "../../core/limit.ts";
import { divideUp, MICROS_PER_SECOND } from "../../core/units.ts";
import { BucketPages, PAGE_BYTES, PAGE_RECORDS_MAX, PAGE_SLOTS, readRecordHash } from "./bucket-pages.ts";

/**
 * There is at most one page for so many buckets, which makes 141 bytes for each bucket. Hashes fill pages evenly: in practice a page
 * holds 192 to 384 buckets, and only hashes made to collide reach this bound.
 */
const BUCKETS_PER_PAGE_MIN = 146;
/** Places of the directory for each page there may be, at most; pages fill unevenly by chance. */
const PLACES_PER_PAGE_MAX = 8;
const DEPTH_MIN = 1;
/** Buckets looked at, one after another in memory, to find the one that is as new soonest. */
const EVICT_LOOKS = 8;
/** So many are looked at if none of the first few is as near to being as new as the buckets were that went before. */
const EVICT_LOOKS_MAX = 64;
/** Slots looked at for them, free ones included. */
const EVICT_SLOTS_MAX = 2 * PAGE_SLOTS;
/** Slots that are swept when a new bucket comes. */
const SWEEP_PER_ADD = 8;
const EXPIRES_S_MAX = 0xffff_ffff;

/** Is shown buckets one by one. */
export interface RecordViewer {
  /** `copyTo` copies the record, and only during the call. `log` is where its entries begin; 0 if it holds numbers. */
  view(pages: BucketPages, slot: number, log: number): void;
}

export interface BucketsOptions {
  /** Beyond that many, one goes for each that comes. At least 1. */
  readonly bucketsMax: number;
  /** Most bytes of the entries of sliding logs. */
  readonly logBytesMax: number;
  /** Learns of buckets that still meant something when they were dropped for lack of room. */
  readonly onEvicted: (buckets: number) => void;
}

/** Buckets by key. A page that is full is split in two, by one more bit of the hashes (extendible hashing). */
export class Buckets implements BucketAccess {
  readonly logs: LogBlocks;
  readonly holds = new HoldBook();
  readonly #bucketsMax: number;
  readonly #pagesMax: number;
  readonly #depthMax: number;
  readonly #onEvicted: (buckets: number) => void;
  readonly #pages = new BucketPages();
  /** The page of each hash, by its first `#depth` bits. */
  #directory: Int32Array;
  #depth = DEPTH_MIN;
  #count = 0;
  /** Where the sweep and the search for what may go stand. */
  #sweepAt = 0;
  #evictAt = 0;
  /** What is near enough: in how many seconds those that went last would have been as new. */
  #evictedLeftS = 0;
  /** Changes whenever a record may have moved to another slot. */
  #version = 0;
  readonly #copied: KeyHash = { keyHash: 0, keyHash1: 0, keyHash2: 0, keyHash3: 0 };

  /** The second in which the current take happens. */
  nowS = 0;

  constructor({ bucketsMax, logBytesMax, onEvicted }: BucketsOptions) {
    this.logs = new LogBlocks(logBytesMax);
    this.#bucketsMax = bucketsMax;
    this.#pagesMax = Math.max(2 ** DEPTH_MIN, divideUp(bucketsMax, BUCKETS_PER_PAGE_MIN));
    this.#depthMax = Math.floor(Math.log2(this.#pagesMax * PLACES_PER_PAGE_MAX));
    this.#onEvicted = onEvicted;
    this.#directory = Int32Array.from({ length: 2 ** DEPTH_MIN }, () => this.#pages.add(DEPTH_MIN));
  }

  /** Buckets in memory, expired ones that were not swept yet included. */
  get count(): number {
    return this.#count;
  }

  /** Bytes of everything that buckets and logs are kept in, free places included. */
  get bytes(): number {
    return this.#pages.count * PAGE_BYTES + this.#directory.byteLength + this.logs.bytes;
  }

  load(bucket: WorkingBucket): boolean {
    const slot = this.#pages.find(this.#pageOf(bucket), bucket);
    bucket.place = slot;
    bucket.placeVersion = this.#version;
    if (slot < 0) return false;
    const log = this.#pages.logOf(slot);
    // A key names its algorithm, so this does not happen; but numbers must never be read as a log.
    if ((log !== 0) !== (bucket.algorithm === Algorithm.slidingLog)) return false;
    if (log === 0) this.#pages.read(slot, bucket.state);
    else bucket.useLog().open(log);
    return true;
  }

  save(bucket: WorkingBucket, expiresAtUs: number): void {
    const known = this.#slotOf(bucket);
    const slot = known < 0 ? this.#add(bucket) : known;
    const expiresS = Math.min(divideUp(expiresAtUs, MICROS_PER_SECOND), EXPIRES_S_MAX);
    const place = bucket.log?.place ?? 0;
    const kept = this.#pages.logOf(slot);
    if (kept !== 0 && kept !== place) this.logs.dropLog(kept);
    if (place === 0) this.#pages.write(slot, bucket.state, expiresS);
    else this.#pages.writeLog(slot, place, expiresS);
  }

  extend(bucket: WorkingBucket, expiresAtUs: number): void {
    const slot = this.#slotOf(bucket);
    const expiresS = Math.min(divideUp(expiresAtUs, MICROS_PER_SECOND), EXPIRES_S_MAX);
    if (slot >= 0 && this.#pages.expiresS(slot) < expiresS) this.#pages.keepUntil(slot, expiresS);
  }

  remove(bucket: WorkingBucket): void {
    const slot = this.#slotOf(bucket);
    if (slot >= 0) this.#drop(slot);
  }

  /** Looks at the next `slots` and drops the buckets in them that have expired by `nowS`. */
  sweep(slots: number, nowS: number): void {
    const all = this.#pages.count * PAGE_SLOTS;
    let passed = 0;
    for (let looks = 0; looks < slots && passed < all; looks++) {
      if (this.#sweepAt >= all) this.#sweepAt = 0;
      const expiresS = this.#pages.expiresS(this.#sweepAt);
      // Another may have moved into the slot of one that was dropped.
      if (expiresS !== 0 && expiresS <= nowS) this.#drop(this.#sweepAt);
      else {
        this.#sweepAt++;
        passed++;
      }
    }
  }

  /**
   * Pages there are. Pages never go, and a bucket that moves goes from its page to a new one behind all others: whoever looks
   * at one page after another misses none, but may see one twice.
   */
  get pageCount(): number {
    return this.#pages.count;
  }

  /** Shows the buckets of that page that mean something at `nowS`. */
  viewPage(page: number, nowS: number, viewer: RecordViewer): void {
    for (let slot = page * PAGE_SLOTS; slot < (page + 1) * PAGE_SLOTS; slot++) {
      if (this.#pages.expiresS(slot) > nowS) viewer.view(this.#pages, slot, this.#pages.logOf(slot));
    }
  }

  /** Shows the bucket of a copied record, wherever it is by now, if it is there and means something at `nowS`. */
  viewRecord(words: Int32Array, at: number, nowS: number, viewer: RecordViewer): void {
    readRecordHash(words, at, this.#copied);
    const slot = this.#pages.find(this.#pageOf(this.#copied), this.#copied);
    if (slot >= 0 && this.#pages.expiresS(slot) > nowS) viewer.view(this.#pages, slot, this.#pages.logOf(slot));
  }

  /** Keeps nothing under the hash of a copied record. */
  removeRecord(words: Int32Array, at: number): void {
    readRecordHash(words, at, this.#copied);
    const slot = this.#pages.find(this.#pageOf(this.#copied), this.#copied);
    if (slot >= 0) this.#drop(slot);
  }

  /** Keeps a copied record in place of any of its hash; `log` is where its entries begin, 0 for a record of numbers. */
  putRecord(words: Int32Array, at: number, log: number): void {
    readRecordHash(words, at, this.#copied);
    const known = this.#pages.find(this.#pageOf(this.#copied), this.#copied);
    const slot = known < 0 ? this.#add(this.#copied) : known;
    const kept = this.#pages.logOf(slot);
    if (kept !== 0) this.logs.dropLog(kept);
    this.#pages.copyFrom(slot, words, at);
    if (log !== 0) this.#pages.writeLog(slot, log, this.#pages.expiresS(slot));
  }

  /** Where the bucket is, negative if it is nowhere: where it was loaded from, if nothing moved since. */
  #slotOf(bucket: WorkingBucket): number {
    if (bucket.place >= 0 && bucket.placeVersion === this.#version) return bucket.place;
    return this.#pages.find(this.#pageOf(bucket), bucket);
  }

  #pageOf(key: KeyHash): number {
    return this.#directory[key.keyHash >>> (32 - this.#depth)] as number;
  }

  #add(key: KeyHash): number {
    this.sweep(SWEEP_PER_ADD, this.nowS);
    if (this.#count >= this.#bucketsMax) this.#evict(this.#soonestOfNext());
    let page = this.#pageOf(key);
    while (this.#pages.recordsIn(page) >= PAGE_RECORDS_MAX) {
      if (!this.#split(page, key)) this.#evict(this.#soonestOf(page));
      page = this.#pageOf(key);
    }
    this.#count++;
    return this.#pages.insert(page, key);
  }

  /** Splits the page of that key. False if it is as deep, or pages are as many, as they may be. */
  #split(page: number, key: KeyHash): boolean {
    const depth = this.#pages.depthOf(page);
    if (depth >= this.#depthMax || this.#pages.count >= this.#pagesMax) return false;
    if (depth === this.#depth) this.#doubleDirectory();
    const other = this.#pages.split(page);
    // The places of the page are those that begin with its bits; the upper half of them is the other's.
    const places = 2 ** (this.#depth - depth);
    const first = (key.keyHash >>> (32 - this.#depth)) & -places;
    this.#directory.fill(other, first + places / 2, first + places);
    this.#version++;
    return true;
  }

  #doubleDirectory(): void {
    const old = this.#directory;
    this.#directory = new Int32Array(old.length * 2);
    for (let i = 0; i < this.#directory.length; i++) this.#directory[i] = old[i >>> 1] as number;
    this.#depth++;
  }

  /** Of the next few buckets the one that is as new soonest. Hashes lie in no order, so these are as good as any. */
  #soonestOfNext(): number {
    const all = this.#pages.count * PAGE_SLOTS;
    const enoughS = this.nowS + this.#evictedLeftS;
    let soonest = -1;
    let soonestS = Number.POSITIVE_INFINITY;
    let seen = 0;
    for (let i = 0; i < EVICT_SLOTS_MAX || soonest < 0; i++) {
      if (seen >= EVICT_LOOKS_MAX || (seen >= EVICT_LOOKS && soonestS <= enoughS)) break;
      this.#evictAt = this.#evictAt + 1 < all ? this.#evictAt + 1 : 0;
      const expiresS = this.#pages.expiresS(this.#evictAt);
      if (expiresS === 0) continue;
      seen++;
      if (expiresS < soonestS) {
        soonest = this.#evictAt;
        soonestS = expiresS;
      }
    }
    this.#evictedLeftS = Math.max(0, Math.min(soonestS - this.nowS, this.#evictedLeftS * 2 + 1));
    return soonest;
  }

  #soonestOf(page: number): number {
    let soonest = -1;
    let soonestS = Number.POSITIVE_INFINITY;
    for (let slot = page * PAGE_SLOTS; slot < (page + 1) * PAGE_SLOTS; slot++) {
      const expiresS = this.#pages.expiresS(slot);
      if (expiresS === 0 || expiresS >= soonestS) continue;
      soonest = slot;
      soonestS = expiresS;
    }
    return soonest;
  }

  #evict(slot: number): void {
    if (this.#pages.expiresS(slot) > this.nowS) this.#onEvicted(1);
    this.#drop(slot);
  }

  #drop(slot: number): void {
    const log = this.#pages.logOf(slot);
    if (log !== 0) this.logs.dropLog(log);
    this.#pages.remove(slot);
    this.#count--;
    this.#version++;
  }
}
