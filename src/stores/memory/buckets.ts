// All buckets of the memory store, by key: the page of each key, the bound on their number, and what is dropped beyond it. Settlement and
// time are elsewhere.

import { HoldBook } from "../../engine/algorithms/hold-book.ts";
import { LogBlocks } from "../../engine/algorithms/log-blocks.ts";
import type { BucketAccess, WorkingBucket } from "../../engine/algorithms/working-bucket.ts";
import { divideUp, MICROS_PER_SECOND } from "../../engine/base/units.ts";
import type { KeyHash } from "../../engine/domain/key-bytes.ts";
import { Algorithm } from "../../engine/domain/limit.ts";
import { BucketPages, PAGE_BYTES, PAGE_RECORDS_MAX, PAGE_SLOTS, readRecordHash } from "./bucket-pages.ts";

/**
 * There is at most one page per this many buckets, which makes 141 bytes per bucket. Hashes fill pages evenly: in practice a page has 192
 * to 384 buckets, and only hashes that are made to collide reach this bound.
 */
const BUCKETS_PER_PAGE_MIN = 146;
/** Most directory entries per possible page; by chance some pages split earlier than others. */
const PLACES_PER_PAGE_MAX = 8;
const DEPTH_MIN = 1;
/** Buckets that are looked at, in memory order, to find the one that expires soonest. */
const EVICT_LOOKS = 8;
/** Buckets that are looked at if none of the first ones expires as soon as recently evicted ones did. */
const EVICT_LOOKS_MAX = 64;
/** Most slots for that search, free ones included. */
const EVICT_SLOTS_MAX = 2 * PAGE_SLOTS;
/** Slots that are swept whenever a bucket is added. */
const SWEEP_PER_ADD = 8;
const EXPIRES_S_MAX = 0xffff_ffff;

/** Is shown buckets one by one. */
export interface RecordViewer {
  /** `pages.copyTo` may copy the record during this call only. `log` is the place of its log; 0 if it has numbers. */
  view(pages: BucketPages, slot: number, log: number): void;
}

export interface BucketsOptions {
  /** Most buckets; beyond it each new one evicts another. At least 1. */
  readonly bucketsMax: number;
  /** Most bytes of sliding logs. */
  readonly logBytesMax: number;
  /** Told the number of buckets that had not expired when they were dropped for lack of room. */
  readonly onEvicted: (buckets: number) => void;
}

/** Buckets by key. A full page is split in two by one more bit of the hashes (extendible hashing). */
export class Buckets implements BucketAccess {
  readonly logs: LogBlocks;
  readonly holds = new HoldBook();
  readonly #bucketsMax: number;
  readonly #pagesMax: number;
  readonly #depthMax: number;
  readonly #onEvicted: (buckets: number) => void;
  readonly #pages = new BucketPages();
  /** The page of a hash, by the hash's first `#depth` bits. */
  #directory: Int32Array;
  #depth = DEPTH_MIN;
  #count = 0;
  /** Next slots of the sweep, and of the search for a bucket to evict. */
  #sweepAt = 0;
  #evictAt = 0;
  /** Seconds that recently evicted buckets had left until they expired: a bucket with as few may be evicted at once. */
  #evictedLeftS = 0;
  /** Changes whenever a record may have moved to another slot. */
  #version = 0;
  readonly #copied: KeyHash = { keyHash: 0, keyHash1: 0, keyHash2: 0, keyHash3: 0 };

  /** The second of the present take. */
  nowS = 0;

  constructor({ bucketsMax, logBytesMax, onEvicted }: BucketsOptions) {
    this.logs = new LogBlocks(logBytesMax);
    this.#bucketsMax = bucketsMax;
    this.#pagesMax = Math.max(2 ** DEPTH_MIN, divideUp(bucketsMax, BUCKETS_PER_PAGE_MIN));
    this.#depthMax = Math.floor(Math.log2(this.#pagesMax * PLACES_PER_PAGE_MAX));
    this.#onEvicted = onEvicted;
    this.#directory = Int32Array.from({ length: 2 ** DEPTH_MIN }, () => this.#pages.add(DEPTH_MIN));
  }

  /** Number of buckets, with expired ones that have not been swept. */
  get count(): number {
    return this.#count;
  }

  /** Bytes of all pages, logs and the directory, free places included. */
  get bytes(): number {
    return this.#pages.count * PAGE_BYTES + this.#directory.byteLength + this.logs.bytes;
  }

  load(bucket: WorkingBucket): boolean {
    const slot = this.#pages.find(this.#pageOf(bucket), bucket);
    bucket.place = slot;
    bucket.placeVersion = this.#version;
    if (slot < 0) return false;
    const log = this.#pages.logOf(slot);
    // A key contains its algorithm, so this does not happen. Still, numbers must never be read as a log.
    if ((log !== 0) !== (bucket.algorithm === Algorithm.slidingLog)) return false;
    if (log === 0) this.#pages.read(slot, bucket.state);
    else this.logs.read(log, bucket.useLog());
    return true;
  }

  save(bucket: WorkingBucket, expiresAtUs: number): void {
    const known = this.#slotOf(bucket);
    const slot = known < 0 ? this.#add(bucket) : known;
    const expiresS = Math.min(divideUp(expiresAtUs, MICROS_PER_SECOND), EXPIRES_S_MAX);
    const kept = this.#pages.logOf(slot);
    if (bucket.log !== undefined) this.#pages.writeLog(slot, this.logs.write(kept, bucket.log), expiresS);
    else {
      if (kept !== 0) this.logs.drop(kept);
      this.#pages.write(slot, bucket.state, expiresS);
    }
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

  /** Looks at the next `slots` slots and drops the buckets that have expired by `nowS`. */
  sweep(slots: number, nowS: number): void {
    const all = this.#pages.count * PAGE_SLOTS;
    let passed = 0;
    for (let looks = 0; looks < slots && passed < all; looks++) {
      if (this.#sweepAt >= all) this.#sweepAt = 0;
      const expiresS = this.#pages.expiresS(this.#sweepAt);
      // The slot is not passed, because another record may have moved into it.
      if (expiresS !== 0 && expiresS <= nowS) this.#drop(this.#sweepAt);
      else {
        this.#sweepAt++;
        passed++;
      }
    }
  }

  /**
   * Number of pages. Pages are never removed, and a bucket moves only from its page to a new last one. So whoever visits the pages in order
   * misses no bucket, but may see one twice.
   */
  get pageCount(): number {
    return this.#pages.count;
  }

  /** Shows the page's buckets that expire after `nowS`. */
  viewPage(page: number, nowS: number, viewer: RecordViewer): void {
    for (let slot = page * PAGE_SLOTS; slot < (page + 1) * PAGE_SLOTS; slot++) {
      if (this.#pages.expiresS(slot) > nowS) viewer.view(this.#pages, slot, this.#pages.logOf(slot));
    }
  }

  /** Shows the bucket of a copied record, wherever it is now, if it exists and expires after `nowS`. */
  viewRecord(words: Int32Array, at: number, nowS: number, viewer: RecordViewer): void {
    readRecordHash(words, at, this.#copied);
    const slot = this.#pages.find(this.#pageOf(this.#copied), this.#copied);
    if (slot >= 0 && this.#pages.expiresS(slot) > nowS) viewer.view(this.#pages, slot, this.#pages.logOf(slot));
  }

  /** Drops the bucket with the hash of a copied record, if it exists. */
  removeRecord(words: Int32Array, at: number): void {
    readRecordHash(words, at, this.#copied);
    const slot = this.#pages.find(this.#pageOf(this.#copied), this.#copied);
    if (slot >= 0) this.#drop(slot);
  }

  /** Writes a copied record, replacing one of the same hash. `log` is the place of its log; 0 for a record with numbers. */
  putRecord(words: Int32Array, at: number, log: number): void {
    readRecordHash(words, at, this.#copied);
    const known = this.#pages.find(this.#pageOf(this.#copied), this.#copied);
    const slot = known < 0 ? this.#add(this.#copied) : known;
    const kept = this.#pages.logOf(slot);
    if (kept !== 0) this.logs.drop(kept);
    this.#pages.copyFrom(slot, words, at);
    if (log !== 0) this.#pages.writeLog(slot, log, this.#pages.expiresS(slot));
  }

  /** Slot of the bucket, negative if it does not exist. The slot that it was loaded from counts if nothing has moved since. */
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

  /** Splits the page of this key. False if the page is as deep as it may be, or if there are as many pages as there may be. */
  #split(page: number, key: KeyHash): boolean {
    const depth = this.#pages.depthOf(page);
    if (depth >= this.#depthMax || this.#pages.count >= this.#pagesMax) return false;
    if (depth === this.#depth) this.#doubleDirectory();
    const other = this.#pages.split(page);
    // The page's directory entries begin with its bits; the upper half of them becomes the new page's.
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

  /** Of the next few buckets, the one that expires soonest. Hashes lie in random order, so these are as good as any. */
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
    if (log !== 0) this.logs.drop(log);
    this.#pages.remove(slot);
    this.#count--;
    this.#version++;
  }
}
