// Counts the most frequent keys in a fixed number of slots: the Space-Saving sketch (Metwally, Agrawal, El Abbadi:
// Efficient Computation of Frequent and Top-k Elements in Data Streams, 2005) with a filter before its slots (Homem,
// Carvalho: Finding Top-k Elements in Data Streams, 2010). Keys are identified by 64 bits of their hashes
// (engine/domain/key-bytes.ts).
//
// A key belongs to a cell. A key without a slot is counted in its cell, together with the cell's other such keys. No
// cell's count is above that of the least slot. When a cell's count has reached the least slot's, its next key takes
// that slot over and begins with the cell's count; the cell of the key that leaves takes the slot's count. So after `n`
// additions to `k` slots no count is too low, none is too high by more than n / k, and a key without a slot was added
// at most n / k times.

import type { KeyHash } from "../../../engine/domain/key-bytes.ts";
import { Tally } from "./tally.ts";

/** Least number of cells per slot. If all keys are new, one of so many takes a slot over, which is the slow path. */
const CELLS_PER_SLOT = 8;
const NONE = -1;

/** `Named` is what the owner knows of a key with a slot. */
export class Sketch<Named> {
  readonly #slotsMax: number;
  /** Two words per cell: its first slot, or NONE; and the most that a key without a slot was added. */
  readonly #cells: Int32Array;
  readonly #cellMask: number;
  /** By slot: the two words of its key's hash, and the next slot of its cell. */
  readonly #hashes: Int32Array;
  readonly #next: Int32Array;
  readonly #counts: Float64Array;
  /** By slot: the part of its count that other keys may have caused. */
  readonly #excess: Float64Array;
  /** By slot: what the owner knows of its key; undefined until the owner sets it. */
  readonly named: (Named | undefined)[];
  /** Number of slots in use; they are the first ones. */
  #size = 0;
  #total = 0;
  /** The least count at the last search, and the slots that had it then. A slot that was counted since has more. */
  #least = 0;
  readonly #leastSlots: Int32Array;
  #leastSize = 0;
  readonly #onLeft: (named: Named) => void;

  /** `onLeft` gets the name of a key that has lost its slot. */
  constructor(slotsMax: number, onLeft: (named: Named) => void) {
    this.#slotsMax = slotsMax;
    this.#onLeft = onLeft;
    const cells = 2 ** Math.ceil(Math.log2(slotsMax * CELLS_PER_SLOT));
    this.#cellMask = cells - 1;
    this.#cells = new Int32Array(2 * cells);
    this.#hashes = new Int32Array(2 * slotsMax);
    this.#next = new Int32Array(slotsMax);
    this.#counts = new Float64Array(slotsMax);
    this.#excess = new Float64Array(slotsMax);
    this.#leastSlots = new Int32Array(slotsMax);
    this.named = new Array<Named | undefined>(slotsMax).fill(undefined);
    this.clear();
  }

  /** Adds the key with this hash once. Returns its slot, or NONE (below 0) if it has none. */
  add({ keyHash, keyHash1 }: KeyHash): number {
    this.#total++;
    const hash0 = keyHash | 0;
    const hashes = this.#hashes;
    const cell = (hash0 & this.#cellMask) << 1;
    for (let slot = this.#cells[cell] as number; slot !== NONE; slot = this.#next[slot] as number) {
      if (hashes[slot << 1] !== hash0 || hashes[(slot << 1) + 1] !== keyHash1) continue;
      this.#counts[slot] = (this.#counts[slot] as number) + 1;
      return slot;
    }
    const slot = this.#slotFor(cell);
    if (slot === NONE) return NONE;
    hashes[slot << 1] = hash0;
    hashes[(slot << 1) + 1] = keyHash1;
    this.#next[slot] = this.#cells[cell] as number;
    this.#cells[cell] = slot;
    const before = this.#cells[cell + 1] as number;
    this.#counts[slot] = before + 1;
    this.#excess[slot] = before;
    return slot;
  }

  /** False if the key was added only once since it took another's slot over: such a key needs no name yet. */
  isWorthName(slot: number): boolean {
    return this.#excess[slot] === 0 || (this.#counts[slot] as number) - (this.#excess[slot] as number) > 1;
  }

  /** The counts so far, of keys with a name. */
  tally(): Tally<Named> {
    let rest = 0;
    for (let cell = 0; cell < this.#cells.length; cell += 2) rest = Math.max(rest, this.#cells[cell + 1] as number);
    for (let slot = 0; slot < this.#size; slot++) {
      if (this.named[slot] === undefined) rest = Math.max(rest, this.#counts[slot] as number);
    }
    const tally = new Tally<Named>(rest, this.#total);
    for (let slot = 0; slot < this.#size; slot++) {
      const named = this.named[slot];
      const most = this.#counts[slot] as number;
      if (named !== undefined) tally.count(named, { least: most - (this.#excess[slot] as number), most }, rest);
    }
    return tally;
  }

  /** Forgets all keys without calling `onLeft`. */
  clear(): void {
    this.named.fill(undefined, 0, this.#size);
    this.#size = 0;
    this.#total = 0;
    this.#least = 0;
    this.#leastSize = 0;
    for (let at = 0; at < this.#cells.length; at += 2) {
      this.#cells[at] = NONE;
      this.#cells[at + 1] = 0;
    }
  }

  /**
   * A slot for a new key of this cell; NONE if the cell's count is below the least slot's, and then the cell counts the
   * key.
   */
  #slotFor(cell: number): number {
    if (this.#size < this.#slotsMax) return this.#size++;
    const before = this.#cells[cell + 1] as number;
    if (before >= this.#least && !this.#hasLeast()) this.#lookForLeast();
    if (before < this.#least) {
      this.#cells[cell + 1] = before + 1;
      return NONE;
    }
    const slot = this.#leastSlots[--this.#leastSize] as number;
    this.#leave(slot);
    return slot;
  }

  #leave(slot: number): void {
    const cell = ((this.#hashes[slot << 1] as number) & this.#cellMask) << 1;
    let before = this.#cells[cell] as number;
    if (before === slot) this.#cells[cell] = this.#next[slot] as number;
    else {
      while (this.#next[before] !== slot) before = this.#next[before] as number;
      this.#next[before] = this.#next[slot] as number;
    }
    // This is the least count of all slots, so no cell's count is above it.
    this.#cells[cell + 1] = this.#counts[slot] as number;
    const named = this.named[slot];
    if (named === undefined) return;
    this.named[slot] = undefined;
    this.#onLeft(named);
  }

  #hasLeast(): boolean {
    while (this.#leastSize > 0) {
      if (this.#counts[this.#leastSlots[this.#leastSize - 1] as number] === this.#least) return true;
      this.#leastSize--;
    }
    return false;
  }

  // Called only when no slot has the last least count any more, so the least count has grown by at least one. After `n`
  // additions there were at most n / k searches of `k` slots each.
  #lookForLeast(): void {
    this.#least = Number.POSITIVE_INFINITY;
    for (let slot = 0; slot < this.#size; slot++) {
      const count = this.#counts[slot] as number;
      if (count < this.#least) {
        this.#least = count;
        this.#leastSize = 0;
      }
      if (count === this.#least) this.#leastSlots[this.#leastSize++] = slot;
    }
  }
}
