// All buckets of the memory store: picks the table by hash, bounds their number and counts what that costs. Time and
// settlement stay outside.

import type { BucketAccess, WorkingBucket } from "../../algorithms/bucket-access.ts";
import { Algorithm } from "../../core/limit.ts";
import { BucketTable, expirySeconds } from "./bucket-table.ts";

/** Buckets per table when the store is full: a table of that size grows in well under a millisecond. */
const BUCKETS_PER_TABLE = 2_048;
const TABLES_MIN = 16;
const TABLES_MAX = 65_536;
/** How many times its part of the buckets one table may hold, however its keys were chosen. */
const CROWDING_MAX = 4;
/** Buckets looked at to find the one that is as new soonest. */
const EVICT_LOOKS = 8;
/** Slots of the same table that a new bucket sweeps, once the table is half full. */
const SWEEP_PER_INSERT = 8;

/** Buckets by key, at most `bucketsMax`; beyond that one goes for each that comes. */
export class Buckets implements BucketAccess {
  readonly #bucketsMax: number;
  readonly #tableBucketsMax: number;
  readonly #onEvicted: (buckets: number) => void;
  /** Tables come into being with their first bucket. */
  readonly #tables: (BucketTable | undefined)[];
  #count = 0;
  #sweptTable = 0;

  /** The second in which the current take happens. */
  nowS = 0;

  /** `onEvicted` learns of buckets that still meant something when they were dropped for want of room. */
  constructor(bucketsMax: number, onEvicted: (buckets: number) => void) {
    let tables = TABLES_MIN;
    while (tables * BUCKETS_PER_TABLE < bucketsMax && tables < TABLES_MAX) tables *= 2;
    this.#bucketsMax = bucketsMax;
    this.#tableBucketsMax = Math.max(BUCKETS_PER_TABLE, Math.ceil(bucketsMax / tables)) * CROWDING_MAX;
    this.#onEvicted = onEvicted;
    this.#tables = new Array<BucketTable | undefined>(tables).fill(undefined);
  }

  /** Buckets in memory, expired ones that were not swept yet included. */
  get count(): number {
    return this.#count;
  }

  load(bucket: WorkingBucket): boolean {
    const hash = spread(bucket.keyHash);
    const table = this.#tables[hash & (this.#tables.length - 1)];
    bucket.place = table === undefined ? -1 : table.find(hash, bucket.bucketKey);
    if (table === undefined || bucket.place < 0) return false;
    bucket.placeVersion = table.version;
    const log = table.logAt(bucket.place);
    if ((log !== undefined) !== (bucket.algorithm === Algorithm.slidingLog)) return false;
    if (log === undefined) table.read(bucket.place, bucket.state);
    else bucket.log = log;
    return true;
  }

  save(bucket: WorkingBucket, expiresAtUs: number): void {
    const hash = spread(bucket.keyHash);
    const table = this.#tableOf(hash);
    let place = placeIn(table, hash, bucket);
    if (place < 0) place = this.#insert(table, hash, bucket.bucketKey);
    const expiresS = expirySeconds(expiresAtUs);
    if (bucket.log === undefined) table.write(place, bucket.state, expiresS);
    else table.writeLog(place, bucket.log, expiresS);
  }

  remove(bucket: WorkingBucket): void {
    const hash = spread(bucket.keyHash);
    const table = this.#tableOf(hash);
    const place = placeIn(table, hash, bucket);
    if (place < 0) return;
    table.remove(place);
    this.#count--;
  }

  /** Looks at the next `slots` slots of all tables in turn and removes what has expired. Returns how many went. */
  sweep(slots: number, nowS: number): number {
    let left = slots;
    let removed = 0;
    for (let i = 0; i < this.#tables.length && left > 0; i++) {
      const table = this.#tables[this.#sweptTable];
      if (table !== undefined) {
        left -= table.capacity;
        removed += table.sweep(table.capacity, nowS);
      }
      this.#sweptTable = (this.#sweptTable + 1) & (this.#tables.length - 1);
    }
    this.#count -= removed;
    return removed;
  }

  #tableOf(hash: number): BucketTable {
    const index = hash & (this.#tables.length - 1);
    let table = this.#tables[index];
    if (table === undefined) {
      table = new BucketTable((expiresS) => this.#evicted(expiresS));
      this.#tables[index] = table;
    }
    return table;
  }

  #insert(table: BucketTable, hash: number, bucketKey: string): number {
    if (this.#count >= this.#bucketsMax) this.#evict(hash);
    else if (table.count >= this.#tableBucketsMax) this.#count -= table.evictNear(hash, EVICT_LOOKS) ? 1 : 0;
    if (table.count * 2 > table.capacity) this.#count -= table.sweep(SWEEP_PER_INSERT, this.nowS);
    const before = table.count;
    const place = table.insert(hash, bucketKey);
    this.#count += table.count - before;
    return place;
  }

  /** Makes room for one bucket: in the table where it comes, or in the next that has one to give. */
  #evict(hash: number): void {
    for (let i = 0; i < this.#tables.length; i++) {
      const table = this.#tables[(hash + i) & (this.#tables.length - 1)];
      if (table?.evictNear(hash, EVICT_LOOKS)) {
        this.#count--;
        return;
      }
    }
  }

  #evicted(expiresS: number): void {
    if (expiresS > this.nowS) this.#onEvicted(1);
  }
}

/** Where the bucket is: where it was loaded from, if nothing has moved since. */
function placeIn(table: BucketTable, hash: number, bucket: WorkingBucket): number {
  if (bucket.place >= 0 && bucket.placeVersion === table.version) return bucket.place;
  return table.find(hash, bucket.bucketKey);
}

/** Spreads every bit of a key's hash over all 32: the lower ones pick the table, the upper ones the slot. */
function spread(keyHash: number): number {
  let hash = keyHash;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
