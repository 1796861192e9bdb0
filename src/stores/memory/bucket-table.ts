// One of the memory store's small hash tables: open addressing with linear probing, everything in typed arrays. Small,
// so that growing one never holds a take for long. Choosing tables, counting and expiry belong to memory-store.ts.

import type { LogState } from "../../algorithms/log-state.ts";
import type { BucketState } from "../../algorithms/step.ts";
import { KeyArena } from "./key-arena.ts";

// Numbers of a slot. A sliding log stands beside the table: `used` is then -1 - its index there.
const AT_US = 0;
const USED = 1;
const NUMBERS = 2;

// Words of a slot. A slot without an expiry is empty.
const EXPIRES_S = 0;
const HASH = 1;
const PREVIOUS = 2;
const KEY_OFFSET = 3;
const KEY_LENGTH = 4;
const WORDS = 5;

const CAPACITY_MIN = 16;
const GROWTH = 1.5;
const LOAD_MAX = 0.75;
/** A table of more slots than this many per bucket shrinks when the sweep has been through it. */
const SHRINK_BELOW = 4;
/** Slots looked at in search of something to evict. */
const EVICT_SLOTS_MAX = 256;
/**
 * No key lies farther than this from its home slot. Callers choose keys and could choose them to collide: this bounds
 * what such keys cost, because beyond it they evict each other.
 */
export const PROBE_MAX = 128;

/** Seconds since the Unix epoch of a time, rounded up, as slots keep their expiry; at least 1. */
export function expirySeconds(expiresAtUs: number): number {
  return Math.min(Math.max(1, Math.ceil(expiresAtUs / 1_000_000)), 0xffffffff);
}

/** Learns that a bucket was dropped for want of room; it would have expired at that second. */
export type Evicted = (expiresS: number) => void;

/** Buckets by key. `place` is the index of a slot; it holds until `version` changes. */
export class BucketTable {
  readonly #evicted: Evicted;
  #capacity = CAPACITY_MIN;
  #numbers = new Float64Array(CAPACITY_MIN * NUMBERS);
  #words = new Uint32Array(CAPACITY_MIN * WORDS);
  #keys = new KeyArena(0);
  #keyBytes = 0;
  #sweepPlace = 0;
  readonly #logs: (LogState | undefined)[] = [];
  readonly #freeLogs: number[] = [];

  /** Buckets in the table. */
  count = 0;
  /** Changes whenever a bucket may have moved. */
  version = 0;

  constructor(evicted: Evicted) {
    this.#evicted = evicted;
  }

  get capacity(): number {
    return this.#capacity;
  }

  /** Place of the key, -1 if it is not here. `hash` is the spread hash of the key (memory-store.ts). */
  find(hash: number, key: string): number {
    const words = this.#words;
    let place = this.#homeOf(hash);
    for (let probes = 0; probes < PROBE_MAX; probes++) {
      const word = place * WORDS;
      if (words[word + EXPIRES_S] === 0) return -1;
      if (
        words[word + HASH] === hash &&
        words[word + KEY_LENGTH] === key.length &&
        this.#keys.equals(words[word + KEY_OFFSET] ?? 0, key)
      ) {
        return place;
      }
      place++;
      if (place === this.#capacity) place = 0;
    }
    return -1;
  }

  /** The log of a slot; undefined if the slot holds numbers. */
  logAt(place: number): LogState | undefined {
    const used = this.#numbers[place * NUMBERS + USED] ?? 0;
    return used < 0 ? this.#logs[-1 - used] : undefined;
  }

  /** Copies the numbers of a slot that holds no log. */
  read(place: number, into: BucketState): void {
    into.atUs = this.#numbers[place * NUMBERS + AT_US] ?? 0;
    into.used = this.#numbers[place * NUMBERS + USED] ?? 0;
    into.previous = this.#words[place * WORDS + PREVIOUS] ?? 0;
  }

  write(place: number, state: BucketState, expiresS: number): void {
    this.#dropLog(place);
    this.#numbers[place * NUMBERS + AT_US] = state.atUs;
    this.#numbers[place * NUMBERS + USED] = state.used;
    this.#words[place * WORDS + PREVIOUS] = state.previous;
    this.#words[place * WORDS + EXPIRES_S] = expiresS;
  }

  writeLog(place: number, log: LogState, expiresS: number): void {
    if (this.logAt(place) !== log) {
      this.#dropLog(place);
      const index = this.#freeLogs.pop() ?? this.#logs.length;
      this.#logs[index] = log;
      this.#numbers[place * NUMBERS + USED] = -1 - index;
    }
    this.#words[place * WORDS + EXPIRES_S] = expiresS;
  }

  /** Makes a place for a key that is not here, and returns it; `write` must follow. May evict one bucket near it. */
  insert(hash: number, key: string): number {
    if (this.count + 1 > this.#capacity * LOAD_MAX) this.#rebuild(Math.ceil(this.#capacity * GROWTH));
    if (!this.#keys.hasRoomFor(key.length)) this.#compactKeys(key.length);
    let place = this.#emptyPlaceFor(hash);
    if (place < 0 && this.count * 2 > this.#capacity) {
      this.#rebuild(Math.ceil(this.#capacity * GROWTH));
      place = this.#emptyPlaceFor(hash);
    }
    if (place < 0) place = this.#evictFor(hash);
    this.#fill(place, hash, this.#keys.append(key), key.length);
    return place;
  }

  /** Empties a slot and closes the gap, so that no probe ends too early. Buckets may move into the slot. */
  remove(place: number): void {
    this.#dropLog(place);
    this.#keyBytes -= this.#words[place * WORDS + KEY_LENGTH] ?? 0;
    this.count--;
    this.version++;
    let hole = place;
    let next = this.#after(place);
    while (this.#words[next * WORDS + EXPIRES_S] !== 0) {
      const home = this.#homeOf(this.#words[next * WORDS + HASH] ?? 0);
      // The bucket may fill the hole if its home is not between the hole and itself.
      if (this.#distance(home, next) >= this.#distance(hole, next)) {
        this.#move(next, hole);
        hole = next;
      }
      next = this.#after(next);
    }
    this.#words[hole * WORDS + EXPIRES_S] = 0;
  }

  /** Looks at the next `slots` slots and removes what has expired by `nowS`. Returns how many went. */
  sweep(slots: number, nowS: number): number {
    let removed = 0;
    for (let i = 0; i < slots; i++) {
      if (this.#sweepPlace >= this.#capacity) {
        this.#sweepPlace = 0;
        if (this.count * SHRINK_BELOW < this.#capacity && this.#capacity > CAPACITY_MIN) {
          this.#rebuild(Math.max(CAPACITY_MIN, Math.ceil(this.count * GROWTH * GROWTH)));
        }
      }
      const expiresS = this.#words[this.#sweepPlace * WORDS + EXPIRES_S] ?? 0;
      if (expiresS !== 0 && expiresS <= nowS) {
        // Another bucket may have moved here: the next turn looks at this slot again.
        this.remove(this.#sweepPlace);
        removed++;
      } else {
        this.#sweepPlace++;
      }
    }
    return removed;
  }

  /** Evicts, of the first `looks` buckets found from a slot on, the one that is as new soonest. False if none. */
  evictNear(hash: number, looks: number): boolean {
    let place = this.#homeOf(hash);
    let victim = -1;
    let victimExpiresS = Number.POSITIVE_INFINITY;
    let seen = 0;
    for (let i = 0; i < this.#capacity && i < EVICT_SLOTS_MAX && seen < looks; i++) {
      const expiresS = this.#words[place * WORDS + EXPIRES_S] ?? 0;
      if (expiresS !== 0) {
        seen++;
        if (expiresS < victimExpiresS) {
          victim = place;
          victimExpiresS = expiresS;
        }
      }
      place = this.#after(place);
    }
    if (victim < 0) return false;
    this.#evicted(victimExpiresS);
    this.remove(victim);
    return true;
  }

  /** Fills the whole range that probes may reach from the home slot: evicts there the one that is as new soonest. */
  #evictFor(hash: number): number {
    let place = this.#homeOf(hash);
    let victim = place;
    let victimExpiresS = Number.POSITIVE_INFINITY;
    for (let probes = 0; probes < PROBE_MAX && probes < this.#capacity; probes++) {
      const expiresS = this.#words[place * WORDS + EXPIRES_S] ?? 0;
      if (expiresS < victimExpiresS) {
        victim = place;
        victimExpiresS = expiresS;
      }
      place = this.#after(place);
    }
    // The slot is taken over at once: a gap closed in between could put the free slot out of reach.
    this.#evicted(victimExpiresS);
    this.#dropLog(victim);
    this.#keyBytes -= this.#words[victim * WORDS + KEY_LENGTH] ?? 0;
    this.count--;
    this.version++;
    return victim;
  }

  #fill(place: number, hash: number, keyOffset: number, keyLength: number): void {
    const word = place * WORDS;
    this.#words[word + EXPIRES_S] = 1;
    this.#words[word + HASH] = hash;
    this.#words[word + PREVIOUS] = 0;
    this.#words[word + KEY_OFFSET] = keyOffset;
    this.#words[word + KEY_LENGTH] = keyLength;
    this.#numbers[place * NUMBERS + AT_US] = 0;
    this.#numbers[place * NUMBERS + USED] = 0;
    this.#keyBytes += keyLength;
    this.count++;
  }

  #emptyPlaceFor(hash: number): number {
    let place = this.#homeOf(hash);
    for (let probes = 0; probes < PROBE_MAX; probes++) {
      if (this.#words[place * WORDS + EXPIRES_S] === 0) return place;
      place = this.#after(place);
    }
    return -1;
  }

  /** Copies all buckets into arrays of that capacity. Keys stay where they are. */
  #rebuild(capacity: number): void {
    const numbers = this.#numbers;
    const words = this.#words;
    const oldCapacity = this.#capacity;
    this.#capacity = capacity;
    this.#numbers = new Float64Array(capacity * NUMBERS);
    this.#words = new Uint32Array(capacity * WORDS);
    this.#keyBytes = 0;
    this.#sweepPlace = 0;
    this.count = 0;
    this.version++;
    for (let place = 0; place < oldCapacity; place++) {
      const word = place * WORDS;
      const expiresS = words[word + EXPIRES_S] ?? 0;
      if (expiresS === 0) continue;
      const hash = words[word + HASH] ?? 0;
      let to = this.#emptyPlaceFor(hash);
      if (to < 0) to = this.#evictFor(hash);
      this.#fill(to, hash, words[word + KEY_OFFSET] ?? 0, words[word + KEY_LENGTH] ?? 0);
      this.#words[to * WORDS + EXPIRES_S] = expiresS;
      this.#words[to * WORDS + PREVIOUS] = words[word + PREVIOUS] ?? 0;
      this.#numbers[to * NUMBERS + AT_US] = numbers[place * NUMBERS + AT_US] ?? 0;
      this.#numbers[to * NUMBERS + USED] = numbers[place * NUMBERS + USED] ?? 0;
    }
  }

  /** Copies the keys of all buckets into a new arena, with room for `extraBytes` more. */
  #compactKeys(extraBytes: number): void {
    const keys = new KeyArena(this.#keyBytes + extraBytes);
    for (let place = 0; place < this.#capacity; place++) {
      const word = place * WORDS;
      if (this.#words[word + EXPIRES_S] === 0) continue;
      const offset = this.#words[word + KEY_OFFSET] ?? 0;
      this.#words[word + KEY_OFFSET] = keys.appendFrom(this.#keys, offset, this.#words[word + KEY_LENGTH] ?? 0);
    }
    this.#keys = keys;
  }

  #dropLog(place: number): void {
    const used = this.#numbers[place * NUMBERS + USED] ?? 0;
    if (used >= 0) return;
    this.#logs[-1 - used] = undefined;
    this.#freeLogs.push(-1 - used);
    this.#numbers[place * NUMBERS + USED] = 0;
  }

  #move(from: number, to: number): void {
    this.#words.copyWithin(to * WORDS, from * WORDS, (from + 1) * WORDS);
    this.#numbers.copyWithin(to * NUMBERS, from * NUMBERS, (from + 1) * NUMBERS);
  }

  /** Home slot of a hash: its upper bits scaled to the capacity, which need not be a power of two. */
  #homeOf(hash: number): number {
    return Math.floor((hash * this.#capacity) / 0x100000000);
  }

  #after(place: number): number {
    return place + 1 === this.#capacity ? 0 : place + 1;
  }

  #distance(from: number, to: number): number {
    return to >= from ? to - from : to - from + this.#capacity;
  }
}
