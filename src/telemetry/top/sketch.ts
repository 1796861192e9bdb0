// Counts the most frequent keys in a fixed number of slots: the Space-Saving sketch (Metwally, Agrawal, El Abbadi: Efficient
// Computation of Frequent and Top-k Elements in Data Streams, 2005) with a filter before its slots (Homem, Carvalho: Finding
// Top-k Elements in Data Streams, 2010). Keys are told apart by 64 bits of their hashes (core/key-hash.ts).
//
// A key without a slot is counted in its cell, together with the others of that cell. No cell has more than the least slot. A key
// whose cell has as much takes that slot, and begins with the cell's count; the cell of the key that leaves gets its count. So
// of `n` counted in `k` slots no count is too low or by more than n / k too high, and a key without a slot came at most n / k times.

import type { KeyHash } from "../../core/key-hash.ts";
import type { Tally } from "./tally.ts";

/** Cells for each slot, at least. Where all keys are new one in so many takes a slot, which is what costs time. */
const CELLS_PER_SLOT = 8;
const NONE = -1;

/** `Named` is what the owner knows of a key that has a slot. */
export class Sketch<Named> {
  readonly #slotsMax: number;
  /** By cell: the first slot of its keys, NONE if they have none; and how often a key without a slot came at most. */
  readonly #cells: Int32Array;
  readonly #cellMask: number;
  /** By slot: two words of its key's hash, and the next slot of the cell. */
  readonly #hashes: Int32Array;
  readonly #next: Int32Array;
  readonly #counts: Float64Array;
  /** By slot: how much of its count its key may not have come to. */
  readonly #excess: Float64Array;
  /** By slot: what is known of its key; undefined if nobody has said. */
  readonly named: (Named | undefined)[];
  /** Slots in use: the first ones. */
  #size = 0;
  /** The least count when it was looked for, and the slots that had it then; one that was counted since has more. */
  #least = 0;
  readonly #leastSlots: Int32Array;
  #leastSize = 0;
  readonly #onLeft: (named: Named) => void;

  /** `onLeft` hears of a name whose key has lost its slot. */
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

  /** Counts the key of that hash once; its slot, or NONE, below 0, if it has none. */
  add({ keyHash, keyHash1 }: KeyHash): number {
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

  /** True unless the key came only once since it took another's slot: of such a key nobody needs to know more. */
  isWorthName(slot: number): boolean {
    return this.#excess[slot] === 0 || (this.#counts[slot] as number) - (this.#excess[slot] as number) > 1;
  }

  /** What was counted so far, of keys with a name. */
  tally(): Tally<Named> {
    const keys: Named[] = [];
    const least: number[] = [];
    const most: number[] = [];
    let rest = 0;
    for (let cell = 0; cell < this.#cells.length; cell += 2) rest = Math.max(rest, this.#cells[cell + 1] as number);
    for (let slot = 0; slot < this.#size; slot++) {
      const count = this.#counts[slot] as number;
      const named = this.named[slot];
      if (named === undefined) rest = Math.max(rest, count);
      else {
        keys.push(named);
        least.push(count - (this.#excess[slot] as number));
        most.push(count);
      }
    }
    return { keys, least, most, rest };
  }

  /** Forgets all keys. Nobody hears of it. */
  clear(): void {
    this.named.fill(undefined, 0, this.#size);
    this.#size = 0;
    this.#least = 0;
    this.#leastSize = 0;
    for (let at = 0; at < this.#cells.length; at += 2) {
      this.#cells[at] = NONE;
      this.#cells[at + 1] = 0;
    }
  }

  /** A slot for a key of that cell. NONE if the cell does not have as much as the least slot: then the cell counts the key. */
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
    // The least slot's count, which no cell has more than.
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

  // Only when no slot has the last least any more, which is then more by one at least: of `n` counted there are at most n / k looks
  // at k slots each.
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
