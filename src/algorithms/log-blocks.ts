// Memory for the entries of sliding logs: blocks of one size in large typed arrays, handed out and taken back whole. A log
// is a chain of blocks that begins at its root, which stays where it is for as long as the log is kept and says where the
// entries are. What stands in the entries is log-state.ts.

import { InvariantError } from "../core/invariant.ts";

/** Entries of one block. With 26 numbers for these and 6 for the chain a block has 32, which is 256 bytes. */
export const ENTRIES_PER_BLOCK = 13;

const BLOCK_DOUBLES = 32;
const BLOCK_WORDS = BLOCK_DOUBLES * 2;
export const BLOCK_BYTES = BLOCK_DOUBLES * 8;
/** Blocks of one array: a megabyte, of which parts that were never written to take no memory. */
const SLAB_BITS = 12;
const SLAB_BLOCKS = 1 << SLAB_BITS;

// Words of a block: its neighbours, then, in a root, what stands for the log.
const NEXT = 0;
const PREVIOUS = 1;
const STAMP = 2;
const FIRST = 3;
const START = 4;
const TAIL = 5;
const END = 6;
const KEPT = 7;
const BLOCKS = 8;
// Numbers of a block.
const BASE = 5;
const TIMES = 6;
const SUMS = TIMES + ENTRIES_PER_BLOCK;

class Slab {
  readonly numbers = new Float64Array(SLAB_BLOCKS * BLOCK_DOUBLES);
  readonly words = new Int32Array(this.numbers.buffer);
}

/** Where the entries of a log are; kept in its root. */
export interface LogHead {
  /** Block and slot of the oldest entry. */
  first: number;
  start: number;
  /** Block of the newest entry, and how many of its slots are taken. */
  tail: number;
  end: number;
  /** Entries. */
  kept: number;
  /** Blocks of the chain, the root included. */
  blocks: number;
  /** Running sum before the oldest entry. */
  base: number;
}

/** Blocks by number, from 1 on; 0 is none. */
export class LogBlocks {
  readonly #slabs: Slab[] = [];
  readonly #blocksMax: number;
  #free = 0;
  #made = 0;
  #used = 0;
  #promised = 0;
  #lastStamp = 0;

  /** Holds at most `bytesMax` bytes, rounded down to whole blocks. */
  constructor(bytesMax = Number.POSITIVE_INFINITY) {
    this.#blocksMax = Math.floor(bytesMax / BLOCK_BYTES);
  }

  /** Bytes of all blocks there ever were at once; they are used again, not given back. */
  get bytes(): number {
    return this.#made * BLOCK_BYTES;
  }

  /** Bytes of the blocks that logs hold now. */
  get usedBytes(): number {
    return this.#used * BLOCK_BYTES;
  }

  /** Forgets what was promised to logs: whoever needed a block has it by now. */
  beginGroup(): void {
    this.#promised = 0;
  }

  /** True if there is a block for whoever asks, beside those promised since `beginGroup`. */
  promise(): boolean {
    if (this.#used + this.#promised >= this.#blocksMax) return false;
    this.#promised++;
    return true;
  }

  /** A block that begins a log; `stampOf` tells that it still does. */
  addRoot(): number {
    const root = this.add();
    this.#lastStamp = (this.#lastStamp % 0x7fff_ffff) + 1;
    this.#setWord(root, STAMP, this.#lastStamp);
    return root;
  }

  /** A block that nobody has. */
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

  /** Takes back a whole log, whatever became of it since its head was written. */
  dropLog(root: number): void {
    this.#setWord(root, STAMP, 0);
    this.drop(root, this.#word(root, TAIL), this.#word(root, BLOCKS));
  }

  /** Takes back a piece of a chain of that many blocks. */
  drop(from: number, to: number, count: number): void {
    this.#setWord(to, NEXT, this.#free);
    this.#free = from;
    this.#used -= count;
  }

  /** What tells this log from others that begin at the same block; 0 if none does. */
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

  /** Costs of all entries up to and with this one, and of the log's base. */
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
