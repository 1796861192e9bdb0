// Memory for sliding logs that a process keeps: blocks of one size in large typed arrays, outside the heap of V8. A log is a chain of
// blocks, which is read and written as a whole.

import { InvariantError } from "../base/invariant.ts";
import type { LogState } from "./log-state.ts";

const BLOCK_DOUBLES = 32;
const BLOCK_WORDS = BLOCK_DOUBLES * 2;
export const BLOCK_BYTES = BLOCK_DOUBLES * 8;
/** Numbers of a block; its other double has two words: the next block of the chain, and in a first block the number of payments. */
const BLOCK_NUMBERS = BLOCK_DOUBLES - 1;
const NEXT = 0;
const COUNT = 1;
/** Payments of one block. A log has one number more, for which each block has a place. */
const PAYMENTS_PER_BLOCK = (BLOCK_NUMBERS - 1) / 2;
/** Blocks of one array, which has a megabyte. The system gives it memory only as parts are written to. */
const SLAB_BITS = 12;
const SLAB_BLOCKS = 1 << SLAB_BITS;

class Slab {
  readonly numbers = new Float64Array(SLAB_BLOCKS * BLOCK_DOUBLES);
  readonly words = new Int32Array(this.numbers.buffer);
}

/** Keeps logs. A log's place is its first block; blocks are numbered from 1, and 0 is none. */
export class LogBlocks {
  readonly #slabs: Slab[] = [];
  readonly #blocksMax: number;
  #free = 0;
  #made = 0;
  #used = 0;
  #promised = 0;

  /** Allocates at most `bytesMax` bytes, rounded down to whole blocks. */
  constructor(bytesMax = Number.POSITIVE_INFINITY) {
    this.#blocksMax = Math.floor(bytesMax / BLOCK_BYTES);
  }

  /** Bytes of the most blocks that were ever in use at once. They are reused, never given back to the system. */
  get bytes(): number {
    return this.#made * BLOCK_BYTES;
  }

  /** Bytes of the blocks that logs use now. */
  get usedBytes(): number {
    return this.#used * BLOCK_BYTES;
  }

  /** Clears all promises. Called before each group, when all logs of the last group have been written. */
  beginGroup(): void {
    this.#promised = 0;
  }

  /** True if the log can be written with one more payment. If that needs a block, it is promised until the next group begins. */
  reserve(log: LogState): boolean {
    if (log.count < log.room || log.joins) return true;
    if (this.#used + this.#promised >= this.#blocksMax) return false;
    this.#promised++;
    log.room += PAYMENTS_PER_BLOCK;
    return true;
  }

  /** True if there is room for a new log of `count` payments. */
  hasRoomFor(count: number): boolean {
    return this.#used + Math.ceil(count / PAYMENTS_PER_BLOCK) <= this.#blocksMax;
  }

  /** Number of payments of the log. */
  countOf(place: number): number {
    return this.#word(place, COUNT);
  }

  read(place: number, log: LogState): void {
    log.begin(this.countOf(place));
    const { numbers, length } = log;
    log.room = 0;
    for (let block = place, at = 0; block !== 0; block = this.#word(block, NEXT), at += BLOCK_NUMBERS) {
      const from = this.#numbersOf(block);
      const first = (block & (SLAB_BLOCKS - 1)) * BLOCK_DOUBLES + 1 - at;
      const end = Math.min(at + BLOCK_NUMBERS, length);
      for (let i = at; i < end; i++) numbers[i] = from[first + i] as number;
      log.room += PAYMENTS_PER_BLOCK;
    }
  }

  /** Writes the log in place of the one at `place` (0: a new one), and returns its place. Room must have been reserved. */
  write(place: number, log: LogState): number {
    const root = place === 0 ? this.#add() : place;
    const { numbers, length } = log;
    let block = root;
    for (let at = 0; ; ) {
      const into = this.#numbersOf(block);
      const first = (block & (SLAB_BLOCKS - 1)) * BLOCK_DOUBLES + 1 - at;
      const end = Math.min(at + BLOCK_NUMBERS, length);
      for (; at < end; at++) into[first + at] = numbers[at] as number;
      if (at >= length) break;
      if (this.#word(block, NEXT) === 0) this.#setWord(block, NEXT, this.#add());
      block = this.#word(block, NEXT);
    }
    const rest = this.#word(block, NEXT);
    this.#setWord(block, NEXT, 0);
    if (rest !== 0) this.drop(rest);
    this.#setWord(root, COUNT, log.count);
    return root;
  }

  /** Frees the blocks of a chain. */
  drop(place: number): void {
    let last = place;
    this.#used--;
    for (let next = this.#word(last, NEXT); next !== 0; next = this.#word(last, NEXT)) {
      last = next;
      this.#used--;
    }
    this.#setWord(last, NEXT, this.#free);
    this.#free = place;
  }

  #add(): number {
    let block = this.#free;
    if (block !== 0) this.#free = this.#word(block, NEXT);
    else {
      if (this.#made >= this.#blocksMax)
        throw new InvariantError(`a block for a log was reserved before it is written`);
      block = ++this.#made;
      if (block >>> SLAB_BITS >= this.#slabs.length) this.#slabs.push(new Slab());
    }
    this.#used++;
    this.#setWord(block, NEXT, 0);
    return block;
  }

  #numbersOf(block: number): Float64Array {
    return (this.#slabs[block >>> SLAB_BITS] as Slab).numbers;
  }

  #word(block: number, word: number): number {
    return (this.#slabs[block >>> SLAB_BITS] as Slab).words[(block & (SLAB_BLOCKS - 1)) * BLOCK_WORDS + word] as number;
  }

  #setWord(block: number, word: number, value: number): void {
    (this.#slabs[block >>> SLAB_BITS] as Slab).words[(block & (SLAB_BLOCKS - 1)) * BLOCK_WORDS + word] = value;
  }
}
