// Lists of numbers that grow and shrink, in blocks of one size: the payments of sliding logs, and the lows of holds. A
// list is read and written as a whole.

import { InvariantError } from "../../base/invariant.ts";
import type { Reserved } from "../../base/reserved.ts";

/**
 * Of a block two words, in the place of its first number: the next block of the list or of the free ones, and the
 * list's length.
 */
const NEXT = 0;
const LENGTH = 1;

/** Lists are known by their first block; blocks are numbered from 1; 0 means no block. */
export class NumberLists {
  readonly #numbers: Float64Array;
  readonly #words: Int32Array;
  readonly #blocksMax: number;
  readonly #blockNumbers: number;
  #free = 0;
  /** Blocks ever in use at once, and those in use now. */
  made = 0;
  used = 0;

  /** At most so many blocks, of `blockBytes` bytes each. */
  constructor(memory: Reserved, blocksMax: number, blockBytes: number) {
    const blockNumbers = blockBytes / Float64Array.BYTES_PER_ELEMENT;
    this.#numbers = memory.numbers((blocksMax + 1) * blockNumbers);
    this.#words = new Int32Array(this.#numbers.buffer, this.#numbers.byteOffset, 2 * this.#numbers.length);
    this.#blocksMax = blocksMax;
    this.#blockNumbers = blockNumbers - 1;
  }

  /** Blocks that a list of so many numbers takes. */
  blocksOf(length: number): number {
    return Math.ceil(length / this.#blockNumbers);
  }

  /** How many numbers the list has. */
  lengthOf(list: number): number {
    return list === 0 ? 0 : this.#word(list, LENGTH);
  }

  /** Copies the list into `into`, from number `from` of it on. */
  read(list: number, into: Float64Array | number[], from = 0): void {
    const length = this.lengthOf(list);
    for (let block = list, at = 0; at < length; block = this.#word(block, NEXT)) {
      const first = this.#firstNumber(block) - at;
      const end = Math.min(at + this.#blockNumbers, length);
      for (; at < end; at++) into[from + at] = this.#numbers[first + at] as number;
    }
  }

  /**
   * Replaces the list (0: makes one) by `length` numbers, at least one. Returns the list. There must be room for it.
   */
  write(list: number, numbers: ArrayLike<number>, length: number): number {
    const root = list === 0 ? this.#take() : list;
    let block = root;
    for (let at = 0; ; block = this.#word(block, NEXT)) {
      const first = this.#firstNumber(block) - at;
      const end = Math.min(at + this.#blockNumbers, length);
      for (; at < end; at++) this.#numbers[first + at] = numbers[at] as number;
      if (at === length) break;
      if (this.#word(block, NEXT) === 0) this.#setWord(block, NEXT, this.#take());
    }
    this.drop(this.#word(block, NEXT));
    this.#setWord(block, NEXT, 0);
    this.#setWord(root, LENGTH, length);
    return root;
  }

  /** Frees the blocks of the list. */
  drop(list: number): void {
    for (let block = list; block !== 0; ) {
      const next = this.#word(block, NEXT);
      this.#setWord(block, NEXT, this.#free);
      this.#free = block;
      this.used--;
      block = next;
    }
  }

  /** Forgets all lists. */
  clear(): void {
    this.#free = 0;
    this.made = 0;
    this.used = 0;
  }

  #take(): number {
    let block = this.#free;
    if (block !== 0) this.#free = this.#word(block, NEXT);
    else if (this.made === this.#blocksMax) throw new InvariantError(`there are at most ${this.#blocksMax} blocks`);
    else block = ++this.made;
    this.used++;
    this.#setWord(block, NEXT, 0);
    return block;
  }

  #firstNumber(block: number): number {
    return block * (this.#blockNumbers + 1) + 1;
  }

  #word(block: number, word: number): number {
    return this.#words[2 * block * (this.#blockNumbers + 1) + word] as number;
  }

  #setWord(block: number, word: number, value: number): void {
    this.#words[2 * block * (this.#blockNumbers + 1) + word] = value;
  }
}
