// Memory for the entries of sliding logs: blocks of one size in large typed arrays, allocated and freed as a whole. A log is a
// chain of blocks. It begins at its root block, which never moves while the log is kept and holds the log's head. log-state.ts reads
// and writes the entries.

import { InvariantError } from "../core/invariant.ts";

/** Entries of one block. They take 26 of the block's 32 doubles (256 bytes); the chain and the head take the other 6. */
export const ENTRIES_PER_BLOCK = 13;

const BLOCK_DOUBLES = 32;
const BLOCK_WORDS = BLOCK_DOUBLES * 2;
export const BLOCK_BYTES = BLOCK_DOUBLES * 8;
/** Blocks of one array, which has a megabyte. The system gives it memory only as parts are written to. */
const SLAB_BITS = 12;
const SLAB_BLOCKS = 1 << SLAB_BITS;

// 32-bit words of a block: its neighbours in the chain; in a root also the stamp and the head of the log.
const NEXT = 0;
const PREVIOUS = 1;
const STAMP = 2;
const FIRST = 3;
const START = 4;
const TAIL = 5;
const END = 6;
const KEPT = 7;
const BLOCKS = 8;
// Doubles of a block.
const BASE = 5;
const TIMES = 6;
const SUMS = TIMES + ENTRIES_PER_BLOCK;

class Slab {
  readonly numbers = new Float64Array(SLAB_BLOCKS * BLOCK_DOUBLES);
  readonly words = new Int32Array(this.numbers.buffer);
}

/** The head of a log, which is kept in its root: where the entries are. */
export interface LogHead {
  /** Block of the oldest entry, and its slot there. */
  first: number;
  start: number;
  /** Block of the newest entry, and how many of its slots are used. */
  tail: number;
  end: number;
  /** Number of entries. */
  kept: number;
  /** Number of blocks in the chain, the root included. */
  blocks: number;
  /** The running sum before the oldest entry. */
  base: number;
}

/** Allocates blocks. They are numbered from 1; 0 is none. */
export class LogBlocks {
  readonly #slabs: Slab[] = [];
  readonly #blocksMax: number;
  #free = 0;
  #made = 0;
  #used = 0;
  #promised = 0;
  #lastStamp = 0;

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

  /** Clears all promises. Called before each group, when all blocks promised for the last group have been added. */
  beginGroup(): void {
    this.#promised = 0;
  }

  /** Promises one more block; false if there is none beside the blocks promised since `beginGroup`. */
  promise(): boolean {
    if (this.#used + this.#promised >= this.#blocksMax) return false;
    this.#promised++;
    return true;
  }

  /** Adds the root block of a log, with a new stamp (`stampOf`). */
  addRoot(): number {
    const root = this.add();
    this.#lastStamp = (this.#lastStamp % 0x7fff_ffff) + 1;
    this.#setWord(root, STAMP, this.#lastStamp);
    return root;
  }

  /** Adds a block. Throws InvariantError if there is none, which `promise` must rule out before. */
  add(): number {
    let block = this.#free;
    if (block !== 0) this.#free = this.#word(block, NEXT);
    else {
      if (this.#made >= this.#blocksMax) throw new InvariantError(`a block for a log was promised before it is added`);
      block = ++this.#made;
      if (block >>> SLAB_BITS >= this.#slabs.length) this.#slabs.push(new Slab());
    }
    this.#used++;
    this.#setWord(block, NEXT, 0);
    this.#setWord(block, PREVIOUS, 0);
    this.#setWord(block, STAMP, 0);
    return block;
  }

  /** Frees a whole log, by the head that its root holds. */
  dropLog(root: number): void {
    this.#setWord(root, STAMP, 0);
    this.drop(root, this.#word(root, TAIL), this.#word(root, BLOCKS));
  }

  /** Frees the piece of a chain from block `from` to block `to`, of `count` blocks. */
  drop(from: number, to: number, count: number): void {
    this.#setWord(to, NEXT, this.#free);
    this.#free = from;
    this.#used -= count;
  }

  /** The stamp of the log that begins at this block, to tell it from later logs that reuse the block; 0 if there is no log. */
  stampOf(root: number): number {
    return this.#word(root, STAMP);
  }

  readHead(root: number, into: LogHead): void {
    into.first = this.#word(root, FIRST);
    into.start = this.#word(root, START);
    into.tail = this.#word(root, TAIL);
    into.end = this.#word(root, END);
    into.kept = this.#word(root, KEPT);
    into.blocks = this.#word(root, BLOCKS);
    into.base = this.#numbersOf(root)[this.#numberAt(root, BASE)] as number;
  }

  writeHead(root: number, head: LogHead): void {
    this.#setWord(root, FIRST, head.first);
    this.#setWord(root, START, head.start);
    this.#setWord(root, TAIL, head.tail);
    this.#setWord(root, END, head.end);
    this.#setWord(root, KEPT, head.kept);
    this.#setWord(root, BLOCKS, head.blocks);
    this.#numbersOf(root)[this.#numberAt(root, BASE)] = head.base;
  }

  nextOf(block: number): number {
    return this.#word(block, NEXT);
  }

  previousOf(block: number): number {
    return this.#word(block, PREVIOUS);
  }

  /** Makes two blocks neighbours in a chain. */
  join(block: number, next: number): void {
    this.#setWord(block, NEXT, next);
    this.#setWord(next, PREVIOUS, block);
  }

  timeAt(block: number, slot: number): number {
    return this.#numbersOf(block)[this.#numberAt(block, TIMES + slot)] as number;
  }

  /** The running sum: the log's base plus the costs of all entries up to and including this one. */
  sumAt(block: number, slot: number): number {
    return this.#numbersOf(block)[this.#numberAt(block, SUMS + slot)] as number;
  }

  setTime(block: number, slot: number, timeUs: number): void {
    this.#numbersOf(block)[this.#numberAt(block, TIMES + slot)] = timeUs;
  }

  setSum(block: number, slot: number, sum: number): void {
    this.#numbersOf(block)[this.#numberAt(block, SUMS + slot)] = sum;
  }

  #numbersOf(block: number): Float64Array {
    return (this.#slabs[block >>> SLAB_BITS] as Slab).numbers;
  }

  #numberAt(block: number, number: number): number {
    return (block & (SLAB_BLOCKS - 1)) * BLOCK_DOUBLES + number;
  }

  #word(block: number, word: number): number {
    return (this.#slabs[block >>> SLAB_BITS] as Slab).words[(block & (SLAB_BLOCKS - 1)) * BLOCK_WORDS + word] as number;
  }

  #setWord(block: number, word: number, value: number): void {
    (this.#slabs[block >>> SLAB_BITS] as Slab).words[(block & (SLAB_BLOCKS - 1)) * BLOCK_WORDS + word] = value;
  }
}
