// The buckets of the memory store: pages of fixed-size records, each page a small hash table. A record has the hash of its key in place of
// the key, so a bucket's size does not depend on its key, and a take finds it with one memory access. Pages are never freed; the slot of
// a removed record is used again.

import type { BucketState } from "../../engine/algorithms/working-bucket.ts";
import { InvariantError } from "../../engine/base/invariant.ts";
import type { KeyHash } from "../../engine/domain/key-bytes.ts";

export const PAGE_SLOTS = 512;
/** Most records of a page: beyond three quarters of its slots, the search for a free slot takes long. */
export const PAGE_RECORDS_MAX = 384;

// A record is five 64-bit numbers; the last three of them are six 32-bit words.
const RECORD_NUMBERS = 5;
export const RECORD_WORDS = RECORD_NUMBERS * 2;
const AT_US = 0;
const USED = 1;
const PREVIOUS = 4;
/** Second in which the record expires; 0 in a free slot. */
const EXPIRES_S = 5;
const HASH = 6;
const HASH_1 = 7;
const HASH_2 = 8;
const HASH_3 = 9;

export const PAGE_BYTES = PAGE_SLOTS * RECORD_NUMBERS * 8;

/** `used` of a record with a sliding log; AT_US is then the place of the log. */
const IS_LOG = -1;

/** Pages lie in arrays of 2.6 MB; parts of an array that were never written take no memory. */
const SLAB_BITS = 7;
const SLAB_PAGES = 1 << SLAB_BITS;
const PAGE_BITS = 9;
const SLOT_MASK = PAGE_SLOTS - 1;
const SLAB_SLOT_MASK = SLAB_PAGES * PAGE_SLOTS - 1;

class Slab {
  readonly numbers = new Float64Array(SLAB_PAGES * PAGE_SLOTS * RECORD_NUMBERS);
  readonly words = new Int32Array(this.numbers.buffer);
  /** By page: its number of records, and how many leading bits their hashes have in common. */
  readonly counts = new Uint16Array(SLAB_PAGES);
  readonly depths = new Uint8Array(SLAB_PAGES);
}

/** Records by slot. A slot is a whole number from 0 on; page p has the slots from p x 512 to p x 512 + 511. */
export class BucketPages {
  readonly #slabs: Slab[] = [];
  /** Copy of a page while it is split. */
  readonly #spread = new Int32Array(PAGE_SLOTS * RECORD_WORDS);

  /** Number of pages. */
  count = 0;

  /** Adds an empty page for hashes with `depth` leading bits in common. Returns its number. */
  add(depth: number): number {
    const page = this.count++;
    if (page >>> SLAB_BITS === this.#slabs.length) this.#slabs.push(new Slab());
    this.#slabOf(page).depths[page & (SLAB_PAGES - 1)] = depth;
    return page;
  }

  recordsIn(page: number): number {
    return this.#slabOf(page).counts[page & (SLAB_PAGES - 1)] as number;
  }

  depthOf(page: number): number {
    return this.#slabOf(page).depths[page & (SLAB_PAGES - 1)] as number;
  }

  /** Slot of the record with this hash, or -1 if the page has none. All 128 bits are compared. */
  find(page: number, key: KeyHash): number {
    const { words } = this.#slabOf(page);
    const from = (page & (SLAB_PAGES - 1)) * PAGE_SLOTS;
    const hash = key.keyHash | 0;
    let slot = key.keyHash1 & SLOT_MASK;
    for (;;) {
      const word = (from + slot) * RECORD_WORDS;
      if (words[word + EXPIRES_S] === 0) return -1;
      if (
        words[word + HASH] === hash &&
        words[word + HASH_1] === key.keyHash1 &&
        words[word + HASH_2] === key.keyHash2 &&
        words[word + HASH_3] === key.keyHash3
      )
        return page * PAGE_SLOTS + slot;
      slot = (slot + 1) & SLOT_MASK;
    }
  }

  /** Adds an empty record to a page with fewer than PAGE_RECORDS_MAX records and none of this hash. Returns its slot. */
  insert(page: number, key: KeyHash): number {
    const slab = this.#slabOf(page);
    const { words, numbers } = slab;
    const at = freeSlot(words, (page & (SLAB_PAGES - 1)) * PAGE_SLOTS, key.keyHash1 & SLOT_MASK);
    const word = at * RECORD_WORDS;
    numbers[at * RECORD_NUMBERS + AT_US] = 0;
    numbers[at * RECORD_NUMBERS + USED] = 0;
    words[word + PREVIOUS] = 0;
    words[word + EXPIRES_S] = 1;
    words[word + HASH] = key.keyHash;
    words[word + HASH_1] = key.keyHash1;
    words[word + HASH_2] = key.keyHash2;
    words[word + HASH_3] = key.keyHash3;
    slab.counts[page & (SLAB_PAGES - 1)] = this.recordsIn(page) + 1;
    return (page >>> SLAB_BITS) * SLAB_PAGES * PAGE_SLOTS + at;
  }

  /** Frees the slot and closes the gap, so that no search ends too early. Records behind the slot may move. */
  remove(slot: number): void {
    const page = slot >>> PAGE_BITS;
    const slab = this.#slabOf(page);
    const { words } = slab;
    const from = (page & (SLAB_PAGES - 1)) * PAGE_SLOTS;
    let hole = slot & SLOT_MASK;
    let next = (hole + 1) & SLOT_MASK;
    while (words[(from + next) * RECORD_WORDS + EXPIRES_S] !== 0) {
      const home = (words[(from + next) * RECORD_WORDS + HASH_1] as number) & SLOT_MASK;
      // The record at `next` may move into the hole unless its home lies between the hole and itself.
      if (((next - home) & SLOT_MASK) >= ((next - hole) & SLOT_MASK)) {
        const source = (from + next) * RECORD_WORDS;
        words.copyWithin((from + hole) * RECORD_WORDS, source, source + RECORD_WORDS);
        hole = next;
      }
      next = (next + 1) & SLOT_MASK;
    }
    words[(from + hole) * RECORD_WORDS + EXPIRES_S] = 0;
    slab.counts[page & (SLAB_PAGES - 1)] = this.recordsIn(page) - 1;
  }

  /** Moves records of a page to a new one, by the next bit of their hashes. Returns the new page. */
  split(page: number): number {
    const depth = this.depthOf(page);
    const other = this.add(depth + 1);
    const slab = this.#slabOf(page);
    const from = (page & (SLAB_PAGES - 1)) * PAGE_SLOTS * RECORD_WORDS;
    const spread = this.#spread;
    spread.set(slab.words.subarray(from, from + spread.length));
    for (let word = EXPIRES_S; word < spread.length; word += RECORD_WORDS) slab.words[from + word] = 0;
    slab.counts[page & (SLAB_PAGES - 1)] = 0;
    slab.depths[page & (SLAB_PAGES - 1)] = depth + 1;
    for (let word = 0; word < spread.length; word += RECORD_WORDS) {
      if (spread[word + EXPIRES_S] === 0) continue;
      const isOther = ((spread[word + HASH] as number) & (1 << (31 - depth))) !== 0;
      this.#insertWords(isOther ? other : page, word);
    }
    return other;
  }

  #insertWords(page: number, word: number): void {
    const slab = this.#slabOf(page);
    const home = (this.#spread[word + HASH_1] as number) & SLOT_MASK;
    const to = freeSlot(slab.words, (page & (SLAB_PAGES - 1)) * PAGE_SLOTS, home) * RECORD_WORDS;
    for (let i = 0; i < RECORD_WORDS; i++) slab.words[to + i] = this.#spread[word + i] as number;
    slab.counts[page & (SLAB_PAGES - 1)] = this.recordsIn(page) + 1;
  }

  /** Second in which the bucket expires; 0 if the slot is free. */
  expiresS(slot: number): number {
    const { words } = this.#slabOf(slot >>> PAGE_BITS);
    return (words[(slot & SLAB_SLOT_MASK) * RECORD_WORDS + EXPIRES_S] as number) >>> 0;
  }

  /** Sets the second in which the record expires. */
  keepUntil(slot: number, expiresS: number): void {
    const { words } = this.#slabOf(slot >>> PAGE_BITS);
    words[(slot & SLAB_SLOT_MASK) * RECORD_WORDS + EXPIRES_S] = expiresS;
  }

  /** Place of the record's log; 0 if the record has numbers. */
  logOf(slot: number): number {
    const { numbers } = this.#slabOf(slot >>> PAGE_BITS);
    const at = (slot & SLAB_SLOT_MASK) * RECORD_NUMBERS;
    return numbers[at + USED] === IS_LOG ? (numbers[at + AT_US] as number) : 0;
  }

  /** Reads the numbers of a record without a log. */
  read(slot: number, into: BucketState): void {
    const { numbers, words } = this.#slabOf(slot >>> PAGE_BITS);
    const at = slot & SLAB_SLOT_MASK;
    into.atUs = numbers[at * RECORD_NUMBERS + AT_US] as number;
    into.used = numbers[at * RECORD_NUMBERS + USED] as number;
    into.previous = (words[at * RECORD_WORDS + PREVIOUS] as number) >>> 0;
  }

  write(slot: number, state: BucketState, expiresS: number): void {
    const { numbers, words } = this.#slabOf(slot >>> PAGE_BITS);
    const at = slot & SLAB_SLOT_MASK;
    numbers[at * RECORD_NUMBERS + AT_US] = state.atUs;
    numbers[at * RECORD_NUMBERS + USED] = state.used;
    words[at * RECORD_WORDS + PREVIOUS] = state.previous;
    words[at * RECORD_WORDS + EXPIRES_S] = expiresS;
  }

  writeLog(slot: number, place: number, expiresS: number): void {
    const { numbers, words } = this.#slabOf(slot >>> PAGE_BITS);
    const at = slot & SLAB_SLOT_MASK;
    numbers[at * RECORD_NUMBERS + AT_US] = place;
    numbers[at * RECORD_NUMBERS + USED] = IS_LOG;
    words[at * RECORD_WORDS + EXPIRES_S] = expiresS;
  }

  /** Copies the whole record, RECORD_WORDS words. */
  copyTo(slot: number, into: Int32Array, at: number): void {
    const { words } = this.#slabOf(slot >>> PAGE_BITS);
    const from = (slot & SLAB_SLOT_MASK) * RECORD_WORDS;
    for (let i = 0; i < RECORD_WORDS; i++) into[at + i] = words[from + i] as number;
  }

  /** Overwrites the record, except its hash, with one that `copyTo` wrote. */
  copyFrom(slot: number, from: Int32Array, at: number): void {
    const { words } = this.#slabOf(slot >>> PAGE_BITS);
    const to = (slot & SLAB_SLOT_MASK) * RECORD_WORDS;
    for (let i = 0; i < HASH; i++) words[to + i] = from[at + i] as number;
  }

  #slabOf(page: number): Slab {
    const slab = this.#slabs[page >>> SLAB_BITS];
    if (slab === undefined) throw new InvariantError(`page ${page} is one of ${this.count}`);
    return slab;
  }
}

/** Reads the hash of a record that `copyTo` wrote. */
export function readRecordHash(words: Int32Array, at: number, into: KeyHash): void {
  into.keyHash = (words[at + HASH] as number) >>> 0;
  into.keyHash1 = words[at + HASH_1] as number;
  into.keyHash2 = words[at + HASH_2] as number;
  into.keyHash3 = words[at + HASH_3] as number;
}

/** Second in which the bucket of a copied record expires. */
export function expiryOfRecord(words: Int32Array, at: number): number {
  return (words[at + EXPIRES_S] as number) >>> 0;
}

/** Writes an empty record with this hash, which has expired. */
export function writeEmptyRecord(words: Int32Array, at: number, key: KeyHash): void {
  words.fill(0, at, at + RECORD_WORDS);
  words[at + HASH] = key.keyHash;
  words[at + HASH_1] = key.keyHash1;
  words[at + HASH_2] = key.keyHash2;
  words[at + HASH_3] = key.keyHash3;
}

/** The first free slot of a page from `home` on, counted from the beginning of its slab. */
function freeSlot(words: Int32Array, from: number, home: number): number {
  let slot = home;
  while (words[(from + slot) * RECORD_WORDS + EXPIRES_S] !== 0) slot = (slot + 1) & SLOT_MASK;
  return from + slot;
}
