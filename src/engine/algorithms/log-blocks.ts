// Memory for sliding logs: blocks of one size. A log is a chain of blocks, which is read and written as a whole. In shared memory, every
// thread has its own LogBlocks, and a lock lets one of them work at a time (stores/memory/store-memory.ts).

import { InvariantError } from "../base/invariant.ts";
import type { JournaledMemory } from "../base/journaled-memory.ts";
import { GROUP_WEIGHT_MAX } from "../domain/take.ts";
import type { LogState } from "./log-state.ts";

const BLOCK_DOUBLES = 32;
const BLOCK_WORDS = BLOCK_DOUBLES * 2;
export const BLOCK_BYTES = BLOCK_DOUBLES * 8;
/** Blocks beyond the bound: the takes of one group need at most one more each. */
const SPARE_BLOCKS = GROUP_WEIGHT_MAX;
/** Numbers of a first block; its other double has two words: the next block of the chain, and the number of payments. */
const FIRST_NUMBERS = BLOCK_DOUBLES - 1;
/** Numbers of a further block, so that each block has room for as many payments: a log has one number more than its payments. */
const FURTHER_NUMBERS = BLOCK_DOUBLES - 2;
const NEXT = 0;
const COUNT = 1;
const PAYMENTS_PER_BLOCK = FURTHER_NUMBERS / 2;

/** Words of block 0, which keeps no payments: the first free block, how many blocks were ever in use at once, and how many are now. */
const FREE = 2;
const MADE = 3;
const USED = 4;

/** Bytes that logs of at most `bytes` bytes take, with block 0 and spare ones. */
export function logRoomBytes(bytes: number): number {
  return bytes + (1 + SPARE_BLOCKS) * BLOCK_BYTES;
}

/** Keeps logs. A log's place is its first block; blocks are numbered from 1, and 0 is none. */
export class LogBlocks {
  readonly #memory: JournaledMemory;
  readonly #firstWord: number;
  readonly #blocksMax: number;

  /** `bytes`: for logs, rounded down to whole blocks. They begin in the memory at byte `at`, a multiple of 8, and take `logRoomBytes`. */
  constructor(memory: JournaledMemory, { at, bytes }: { readonly at: number; readonly bytes: number }) {
    this.#memory = memory;
    this.#firstWord = at / 4;
    this.#blocksMax = Math.floor(bytes / BLOCK_BYTES);
  }

  /** Bytes of the most blocks that were ever in use at once. They are reused, never given back to the system. */
  get bytes(): number {
    return this.#word(0, MADE) * BLOCK_BYTES;
  }

  /** Bytes of the blocks that logs use now. */
  get usedBytes(): number {
    return this.#word(0, USED) * BLOCK_BYTES;
  }

  /** True if the log may be written with one more payment: it needs no further block, or there is a block left within the bound. */
  hasRoomForPayment(log: LogState): boolean {
    return log.joins || log.count % PAYMENTS_PER_BLOCK > 0 || this.#word(0, USED) < this.#blocksMax;
  }

  /** True if there is room for a new log of `count` payments. */
  hasRoomFor(count: number): boolean {
    return this.#word(0, USED) + Math.ceil(count / PAYMENTS_PER_BLOCK) <= this.#blocksMax;
  }

  /** Forgets all logs, without a journal. */
  clear(): void {
    this.#memory.words.fill(0, this.#firstWord, this.#firstWord + BLOCK_WORDS);
  }

  read(place: number, log: LogState): void {
    log.begin(this.#word(place, COUNT));
    const { numbers, length } = log;
    const from = this.#memory.numbers;
    for (let block = place, at = 0; block !== 0; block = this.#word(block, NEXT)) {
      const first = this.#firstNumber(block) - at;
      const end = endOfBlock(at, length);
      for (; at < end; at++) numbers[at] = from[first + at] as number;
    }
  }

  /** Writes the log in place of the one at `place` (0: a new one), and returns its place. There must be room for it. */
  write(place: number, log: LogState): number {
    const root = place === 0 ? this.#add() : place;
    const { numbers, length } = log;
    let block = root;
    for (let at = 0; ; ) {
      const first = this.#firstNumber(block) - at;
      const end = endOfBlock(at, length);
      for (; at < end; at++) this.#memory.setNumber(first + at, numbers[at] as number);
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
    let used = this.#word(0, USED) - 1;
    for (let next = this.#word(last, NEXT); next !== 0; next = this.#word(last, NEXT)) {
      last = next;
      used--;
    }
    this.#setWord(last, NEXT, this.#word(0, FREE));
    this.#setWord(0, FREE, place);
    this.#setWord(0, USED, used);
  }

  #add(): number {
    let block = this.#word(0, FREE);
    if (block !== 0) this.#setWord(0, FREE, this.#word(block, NEXT));
    else {
      block = this.#word(0, MADE) + 1;
      if (block > this.#blocksMax + SPARE_BLOCKS)
        throw new InvariantError(`there are at most ${SPARE_BLOCKS} blocks more than the bound says`);
      this.#setWord(0, MADE, block);
    }
    this.#setWord(0, USED, this.#word(0, USED) + 1);
    this.#setWord(block, NEXT, 0);
    return block;
  }

  /** Where the block's numbers begin in the memory. */
  #firstNumber(block: number): number {
    return this.#firstWord / 2 + block * BLOCK_DOUBLES + 1;
  }

  #word(block: number, word: number): number {
    return this.#memory.words[this.#firstWord + block * BLOCK_WORDS + word] as number;
  }

  #setWord(block: number, word: number, value: number): void {
    this.#memory.setWord(this.#firstWord + block * BLOCK_WORDS + word, value);
  }
}

/** The number after the last one of the block that begins with number `at` of a log of `length` numbers. */
function endOfBlock(at: number, length: number): number {
  return Math.min(at + (at === 0 ? FIRST_NUMBERS : FURTHER_NUMBERS), length);
}
