// One of the memory store's small hash tables: hash to address, open addressing with linear probing. Small, so that
// growing one never holds a take for long. Keys and what stands behind them are in bucket-records.ts.

import { InvariantError } from "../../core/invariant.ts";
import type { Keyed } from "../../core/key-bytes.ts";
import type { BucketRecords } from "./bucket-records.ts";

// A slot is two words; one without an address is empty.
const HASH = 0;
const ADDRESS = 1;
const WORDS = 2;

const CAPACITY_MIN = 16;
const GROWTH = 1.5;
const LOAD_MAX = 0.75;
/** A table of more slots than this many per bucket shrinks. */
const SHRINK_BELOW = 5;
/**
 * No key lies farther than this from its home slot. Callers choose keys and could choose them to collide: this bounds
 * what such keys cost, because beyond it they evict each other.
 */
export const PROBE_MAX = 128;

/** Addresses by key. */
export class KeyTable {
  readonly #records: BucketRecords;
  #capacity = CAPACITY_MIN;
  #words = new Uint32Array(CAPACITY_MIN * WORDS);

  /** Keys in the table. */
  count = 0;

  constructor(records: BucketRecords) {
    this.#records = records;
  }

  get capacity(): number {
    return this.#capacity;
  }

  /** Address of the bucket of that key, 0 if it is not here. `keyed` has its key as bytes. */
  find(keyed: Keyed): number {
    const words = this.#words;
    const hash = keyed.keyHash;
    let slot = this.#homeOf(hash);
    for (let probes = 0; probes < PROBE_MAX; probes++) {
      const address = words[slot * WORDS + ADDRESS] as number;
      if (address === 0) return 0;
      if (words[slot * WORDS + HASH] === hash && this.#records.hasKey(address, keyed)) return address;
      slot = this.#after(slot);
    }
    return 0;
  }

  /** True if a key of that hash can be added. Grows the table for it; false if too many keys crowd its home slot. */
  makeRoom(hash: number): boolean {
    if (this.count + 1 > this.#capacity * LOAD_MAX && !this.#rebuild(Math.ceil(this.#capacity * GROWTH))) return false;
    if (this.#emptySlotFor(hash) >= 0) return true;
    const canGrow = this.count * 2 > this.#capacity;
    return canGrow && this.#rebuild(Math.ceil(this.#capacity * GROWTH)) && this.#emptySlotFor(hash) >= 0;
  }

  /** Adds a bucket. `makeRoom` was true for its hash just before. */
  add(hash: number, address: number): void {
    const slot = this.#emptySlotFor(hash);
    this.#words[slot * WORDS + HASH] = hash;
    this.#words[slot * WORDS + ADDRESS] = address;
    this.count++;
  }

  /** Puts a bucket in the slot of another that `soonestNear` found near the hash's home slot. */
  replace(victim: number, hash: number, address: number): void {
    const slot = this.#slotOf(hash, victim);
    this.#words[slot * WORDS + HASH] = hash;
    this.#words[slot * WORDS + ADDRESS] = address;
  }

  /** Removes a bucket that is here, and closes the gap so that no probe ends too early. */
  remove(hash: number, address: number): void {
    let hole = this.#slotOf(hash, address);
    let next = this.#after(hole);
    while (this.#words[next * WORDS + ADDRESS] !== 0) {
      const home = this.#homeOf(this.#words[next * WORDS + HASH] ?? 0);
      // What lies at `next` may fill the hole if its home is not between the hole and itself.
      if (this.#distance(home, next) >= this.#distance(hole, next)) {
        this.#words[hole * WORDS + HASH] = this.#words[next * WORDS + HASH] ?? 0;
        this.#words[hole * WORDS + ADDRESS] = this.#words[next * WORDS + ADDRESS] ?? 0;
        hole = next;
      }
      next = this.#after(next);
    }
    this.#words[hole * WORDS + ADDRESS] = 0;
    this.count--;
    if (this.#capacity > CAPACITY_MIN && this.count * SHRINK_BELOW < this.#capacity) {
      this.#rebuild(Math.max(CAPACITY_MIN, Math.ceil(this.#capacity / 2)));
    }
  }

  /** Of the first `looks` buckets from the hash's home slot on, the one that is as new soonest; 0 if there is none. */
  soonestNear(hash: number, looks: number): number {
    let slot = this.#homeOf(hash);
    let soonest = 0;
    let soonestS = Number.POSITIVE_INFINITY;
    let seen = 0;
    for (let i = 0; i < this.#capacity && seen < looks; i++) {
      const address = this.#words[slot * WORDS + ADDRESS] as number;
      if (address !== 0) {
        seen++;
        const expiresS = this.#records.expiresS(address);
        if (expiresS < soonestS) {
          soonest = address;
          soonestS = expiresS;
        }
      }
      slot = this.#after(slot);
    }
    return soonest;
  }

  /** Slot of a bucket that lies within reach of the hash's home slot. */
  #slotOf(hash: number, address: number): number {
    let slot = this.#homeOf(hash);
    for (let probes = 0; probes < PROBE_MAX; probes++) {
      if (this.#words[slot * WORDS + ADDRESS] === address) return slot;
      slot = this.#after(slot);
    }
    throw new InvariantError(`the bucket at ${address} lies within ${PROBE_MAX} slots of its home`);
  }

  #emptySlotFor(hash: number): number {
    let slot = this.#homeOf(hash);
    for (let probes = 0; probes < PROBE_MAX; probes++) {
      if (this.#words[slot * WORDS + ADDRESS] === 0) return slot;
      slot = this.#after(slot);
    }
    return -1;
  }

  /** Spreads the buckets over that many slots. False, and nothing changed, if some would lie too far from home. */
  #rebuild(capacity: number): boolean {
    const oldWords = this.#words;
    const oldCapacity = this.#capacity;
    this.#capacity = capacity;
    this.#words = new Uint32Array(capacity * WORDS);
    for (let from = 0; from < oldCapacity; from++) {
      const address = oldWords[from * WORDS + ADDRESS] ?? 0;
      if (address === 0) continue;
      const hash = oldWords[from * WORDS + HASH] ?? 0;
      const to = this.#emptySlotFor(hash);
      if (to < 0) {
        this.#words = oldWords;
        this.#capacity = oldCapacity;
        return false;
      }
      this.#words[to * WORDS + HASH] = hash;
      this.#words[to * WORDS + ADDRESS] = address;
    }
    return true;
  }

  /** Home slot of a hash: its upper bits scaled to the capacity, which need not be a power of two. */
  #homeOf(hash: number): number {
    return Math.floor((hash * this.#capacity) / 0x100000000);
  }

  #after(slot: number): number {
    return slot + 1 === this.#capacity ? 0 : slot + 1;
  }

  #distance(from: number, to: number): number {
    return to >= from ? to - from : to - from + this.#capacity;
  }
}
