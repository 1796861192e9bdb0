// All buckets of the memory store by key: bounds their number, drops what has expired, counts what had to go before.
// Settlement and time stay outside.

import type { BucketAccess, WorkingBucket } from "../../algorithms/bucket-access.ts";
import { Algorithm } from "../../core/limit.ts";
import { divideUp, MICROS_PER_SECOND } from "../../core/units.ts";
import { BucketEntries } from "./bucket-entries.ts";
import { KeyTable, PROBE_MAX } from "./key-table.ts";

/** Keys per table when the store is full: a table of that size grows in well under a millisecond. */
const KEYS_PER_TABLE = 2_048;
const TABLES_MIN = 16;
const TABLES_MAX = 65_536;
/** How many times its part of the keys one table may hold, however they were chosen. */
const CROWDING_MAX = 4;
/** Buckets looked at to find the one that is as new soonest. */
const EVICT_LOOKS = 8;
/** Buckets that are swept when a new one comes. */
const SWEEP_PER_ADD = 4;
const EXPIRES_S_MAX = 0xffff_ffff;

/** Buckets by key, at most `bucketsMax`; beyond that one goes for each that comes. */
export class Buckets implements BucketAccess {
  readonly #bucketsMax: number;
  readonly #tableKeysMax: number;
  readonly #onEvicted: (buckets: number) => void;
  readonly #entries = new BucketEntries();
  /** Tables come into being with their first key. */
  readonly #tables: (KeyTable | undefined)[];
  #sweepNext = 0;
  #evictNext = 0;
  /** Changes whenever an entry number may have come to stand for another bucket. */
  #version = 0;

  /** The second in which the current take happens. */
  nowS = 0;

  /** `onEvicted` learns of buckets that still meant something when they were dropped for want of room. */
  constructor(bucketsMax: number, onEvicted: (buckets: number) => void) {
    let tables = TABLES_MIN;
    while (tables * KEYS_PER_TABLE < bucketsMax && tables < TABLES_MAX) tables *= 2;
    this.#bucketsMax = bucketsMax;
    this.#tableKeysMax = Math.max(KEYS_PER_TABLE, divideUp(bucketsMax, tables)) * CROWDING_MAX;
    this.#onEvicted = onEvicted;
    this.#tables = new Array<KeyTable | undefined>(tables).fill(undefined);
  }

  /** Buckets in memory, expired ones that were not swept yet included. */
  get count(): number {
    return this.#entries.count;
  }

  load(bucket: WorkingBucket): boolean {
    const hash = spread(bucket.keyHash);
    const table = this.#tables[hash & (this.#tables.length - 1)];
    const entry = table === undefined ? -1 : table.find(hash, bucket.bucketKey);
    bucket.place = entry;
    bucket.placeVersion = this.#version;
    if (entry < 0) return false;
    const log = this.#entries.logOf(entry);
    // A key names its algorithm, so this does not happen; but numbers must never be read as a log.
    if ((log !== undefined) !== (bucket.algorithm === Algorithm.slidingLog)) return false;
    if (log === undefined) this.#entries.read(entry, bucket.state);
    else bucket.log = log;
    return true;
  }

  save(bucket: WorkingBucket, expiresAtUs: number): void {
    const entry = this.#entryOf(bucket) ?? this.#add(spread(bucket.keyHash), bucket.bucketKey);
    const expiresS = Math.min(divideUp(expiresAtUs, MICROS_PER_SECOND), EXPIRES_S_MAX);
    if (bucket.log === undefined) this.#entries.write(entry, bucket.state, expiresS);
    else this.#entries.writeLog(entry, bucket.log, expiresS);
  }

  remove(bucket: WorkingBucket): void {
    const entry = this.#entryOf(bucket);
    if (entry !== undefined) this.#drop(entry);
  }

  /** Looks at the next `entries` entries and drops those that have expired by `nowS`. */
  sweep(entries: number, nowS: number): void {
    const end = this.#entries.end;
    for (let i = 0; i < entries && i < end; i++) {
      if (this.#sweepNext >= end) this.#sweepNext = 0;
      const expiresS = this.#entries.expiresS(this.#sweepNext);
      if (expiresS !== 0 && expiresS <= nowS) this.#drop(this.#sweepNext);
      this.#sweepNext++;
    }
  }

  /** Where the bucket is: where it was loaded from, if nothing was dropped since. */
  #entryOf(bucket: WorkingBucket): number | undefined {
    let entry = bucket.place;
    if (entry < 0 || bucket.placeVersion !== this.#version) {
      const hash = spread(bucket.keyHash);
      entry = this.#tableOf(hash).find(hash, bucket.bucketKey);
    }
    return entry < 0 ? undefined : entry;
  }

  #add(hash: number, key: string): number {
    this.sweep(SWEEP_PER_ADD, this.nowS);
    if (this.#entries.count >= this.#bucketsMax) this.#evict(this.#soonestOfNext());
    const table = this.#tableOf(hash);
    if (table.count >= this.#tableKeysMax) this.#evict(table.soonestNear(hash, EVICT_LOOKS));
    if (table.makeRoom(hash)) {
      const entry = this.#entries.add(hash, key);
      table.add(hash, entry);
      return entry;
    }
    const victim = table.soonestNear(hash, PROBE_MAX);
    this.#countEvicted(victim);
    this.#entries.drop(victim);
    this.#version++;
    const entry = this.#entries.add(hash, key);
    table.replace(victim, hash, entry);
    return entry;
  }

  /** Of the next few buckets in memory, wherever they are, the one that is as new soonest. */
  #soonestOfNext(): number {
    let soonest = -1;
    let soonestS = Number.POSITIVE_INFINITY;
    let seen = 0;
    for (let i = 0; i < this.#entries.end && seen < EVICT_LOOKS; i++) {
      if (this.#evictNext >= this.#entries.end) this.#evictNext = 0;
      const expiresS = this.#entries.expiresS(this.#evictNext);
      if (expiresS !== 0) {
        seen++;
        if (expiresS < soonestS) {
          soonest = this.#evictNext;
          soonestS = expiresS;
        }
      }
      this.#evictNext++;
    }
    return soonest;
  }

  #evict(entry: number): void {
    if (entry < 0) return;
    this.#countEvicted(entry);
    this.#drop(entry);
  }

  #countEvicted(entry: number): void {
    if (this.#entries.expiresS(entry) > this.nowS) this.#onEvicted(1);
  }

  #drop(entry: number): void {
    const hash = this.#entries.hashOf(entry);
    this.#tableOf(hash).remove(hash, entry);
    this.#entries.drop(entry);
    this.#version++;
  }

  #tableOf(hash: number): KeyTable {
    const index = hash & (this.#tables.length - 1);
    let table = this.#tables[index];
    if (table === undefined) {
      table = new KeyTable(this.#entries);
      this.#tables[index] = table;
    }
    return table;
  }
}

/** Spreads every bit of a key's hash over all 32: the lower ones pick the table, the upper ones the slot. */
function spread(keyHash: number): number {
  let hash = keyHash;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
