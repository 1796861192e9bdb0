// All buckets of the memory store by key: bounds their number, drops what has expired, counts what had to go before.
// Settlement and time stay outside.

import type { BucketAccess, WorkingBucket } from "../../algorithms/bucket-access.ts";
import type { Keyed } from "../../core/key-bytes.ts";
import { Algorithm } from "../../core/limit.ts";
import { divideUp, MICROS_PER_SECOND } from "../../core/units.ts";
import { BucketRecords } from "./bucket-records.ts";
import { KeyTable, PROBE_MAX } from "./key-table.ts";

/** Keys per table when the store is full: a table of that size grows in well under a millisecond. */
const KEYS_PER_TABLE = 8_192;
const TABLES_MIN = 16;
const TABLES_MAX = 65_536;
/** How many times its part of the keys one table may hold, however they were chosen. */
const CROWDING_MAX = 4;
/** Buckets looked at, one after another in memory, to find the one that is as new soonest. */
const EVICT_LOOKS = 8;
/** If none of them is as near to it as those that went before were: how often others are looked at, here and there. */
const EVICT_TRIES = 14;
const LOOKS_PER_TRY = 4;
/** Buckets that are swept when a new one comes. */
const SWEEP_PER_ADD = 4;
const EXPIRES_S_MAX = 0xffff_ffff;

/** Buckets by key, at most `bucketsMax`; beyond that one goes for each that comes. */
export class Buckets implements BucketAccess {
  readonly #bucketsMax: number;
  readonly #tableKeysMax: number;
  readonly #onEvicted: (buckets: number) => void;
  readonly #records = new BucketRecords();
  /** Tables come into being with their first key. */
  readonly #tables: (KeyTable | undefined)[];
  /** Where the sweep and the search for what may go stand. */
  #sweepAt = 0;
  #evictAt = 0;
  /** What is near enough: in how many seconds those that went last would have been as new. */
  #evictedLeftS = 0;
  #tried = 0;
  /** Changes whenever an address may have come to stand for another bucket. */
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
    return this.#records.count;
  }

  load(bucket: WorkingBucket): boolean {
    const address = this.#tables[bucket.keyHash & (this.#tables.length - 1)]?.find(bucket) ?? 0;
    bucket.place = address;
    bucket.placeVersion = this.#version;
    if (address === 0) return false;
    const log = this.#records.logOf(address);
    // A key names its algorithm, so this does not happen; but numbers must never be read as a log.
    if ((log !== undefined) !== (bucket.algorithm === Algorithm.slidingLog)) return false;
    if (log === undefined) this.#records.read(address, bucket.state);
    else bucket.log = log;
    return true;
  }

  save(bucket: WorkingBucket, expiresAtUs: number): void {
    const known = this.#addressOf(bucket);
    const address = known === 0 ? this.#add(bucket) : known;
    const expiresS = Math.min(divideUp(expiresAtUs, MICROS_PER_SECOND), EXPIRES_S_MAX);
    if (bucket.log === undefined) this.#records.write(address, bucket.state, expiresS);
    else this.#records.writeLog(address, bucket.log, expiresS);
  }

  extend(bucket: WorkingBucket, expiresAtUs: number): void {
    const address = this.#addressOf(bucket);
    const expiresS = Math.min(divideUp(expiresAtUs, MICROS_PER_SECOND), EXPIRES_S_MAX);
    if (address !== 0 && this.#records.expiresS(address) < expiresS) this.#records.keepUntil(address, expiresS);
  }

  remove(bucket: WorkingBucket): void {
    const address = this.#addressOf(bucket);
    if (address !== 0) this.#drop(address);
  }

  /** Looks at the next `buckets` places and drops those that have expired by `nowS`. */
  sweep(buckets: number, nowS: number): void {
    const records = this.#records;
    const looks = Math.min(buckets, records.made);
    for (let i = 0; i < looks; i++) {
      this.#sweepAt = records.next(this.#sweepAt);
      const expiresS = records.expiresS(this.#sweepAt);
      if (expiresS !== 0 && expiresS <= nowS) this.#drop(this.#sweepAt);
    }
  }

  /** Where the bucket is, 0 if it is nowhere: where it was loaded from, if nothing was dropped since. */
  #addressOf(bucket: WorkingBucket): number {
    if (bucket.place !== 0 && bucket.placeVersion === this.#version) return bucket.place;
    return this.#tableOf(bucket.keyHash).find(bucket);
  }

  #add(keyed: Keyed): number {
    const hash = keyed.keyHash;
    this.sweep(SWEEP_PER_ADD, this.nowS);
    if (this.#records.count >= this.#bucketsMax) this.#evict(this.#soonestOfSome());
    const table = this.#tableOf(hash);
    if (table.count >= this.#tableKeysMax) this.#evict(table.soonestNear(hash, EVICT_LOOKS));
    if (table.makeRoom(hash)) {
      const address = this.#records.add(keyed);
      table.add(hash, address);
      return address;
    }
    const victim = table.soonestNear(hash, PROBE_MAX);
    this.#countEvicted(victim);
    this.#records.drop(victim);
    this.#version++;
    const address = this.#records.add(keyed);
    table.replace(victim, hash, address);
    return address;
  }

  /**
   * Of a few buckets, the one that is as new soonest; 0 if there is none. Keys of one kind lie together in memory, so a
   * flood of fresh ones would be found only where it lies, and the buckets of others go elsewhere: hence the tries.
   */
  #soonestOfSome(): number {
    let soonest = this.#soonestOfNext();
    const enoughS = this.nowS + this.#evictedLeftS;
    for (let i = 0; i < EVICT_TRIES && this.#expiryOf(soonest) > enoughS; i++) {
      this.#tried = (Math.imul(this.#tried, 1_664_525) + 1_013_904_223) >>> 0;
      const table = this.#tables[this.#tried & (this.#tables.length - 1)];
      const other = table?.soonestNear(this.#tried, LOOKS_PER_TRY) ?? 0;
      if (this.#expiryOf(other) < this.#expiryOf(soonest)) soonest = other;
    }
    this.#evictedLeftS = Math.max(0, Math.min(this.#expiryOf(soonest) - this.nowS, this.#evictedLeftS * 2 + 1));
    return soonest;
  }

  #soonestOfNext(): number {
    const records = this.#records;
    let soonest = 0;
    let seen = 0;
    for (let i = 0; i < records.made && seen < EVICT_LOOKS; i++) {
      this.#evictAt = records.next(this.#evictAt);
      if (records.expiresS(this.#evictAt) === 0) continue;
      seen++;
      if (this.#expiryOf(this.#evictAt) < this.#expiryOf(soonest)) soonest = this.#evictAt;
    }
    return soonest;
  }

  #expiryOf(address: number): number {
    return address === 0 ? Number.POSITIVE_INFINITY : this.#records.expiresS(address);
  }

  #evict(address: number): void {
    if (address === 0) return;
    this.#countEvicted(address);
    this.#drop(address);
  }

  #countEvicted(address: number): void {
    if (this.#records.expiresS(address) > this.nowS) this.#onEvicted(1);
  }

  #drop(address: number): void {
    const hash = this.#records.hashOf(address);
    this.#tableOf(hash).remove(hash, address);
    this.#records.drop(address);
    this.#version++;
  }

  #tableOf(hash: number): KeyTable {
    const index = hash & (this.#tables.length - 1);
    let table = this.#tables[index];
    if (table === undefined) {
      table = new KeyTable(this.#records);
      this.#tables[index] = table;
    }
    return table;
  }
}
