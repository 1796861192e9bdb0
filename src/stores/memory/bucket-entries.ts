// The buckets of the memory store, packed in blocks of typed arrays, by number. Entries never move, so a number stays
// good until its entry is dropped. Which number a key has is key-table.ts.

import type { LogState } from "../../algorithms/log-state.ts";
import type { BucketState } from "../../algorithms/step.ts";
import { InvariantError } from "../../core/invariant.ts";
import { KeyBlocks } from "./key-blocks.ts";

const BLOCK_BITS = 11;
const BLOCK_ENTRIES = 1 << BLOCK_BITS;

// Numbers of an entry. A sliding log stands beside: `used` is then IS_LOG.
const AT_US = 0;
const USED = 1;
const NUMBERS = 2;
const IS_LOG = -1;

// Words of an entry. One without an expiry is free and holds the number of the next free one, plus 1, in KEY.
const EXPIRES_S = 0;
const HASH = 1;
const PREVIOUS = 2;
const KEY = 3;
const KEY_LENGTH = 4;
const WORDS = 5;

class Block {
  readonly numbers = new Float64Array(BLOCK_ENTRIES * NUMBERS);
  readonly words = new Uint32Array(BLOCK_ENTRIES * WORDS);
  logs: (LogState | undefined)[] | undefined = undefined;
}

/** Buckets by number. */
export class BucketEntries {
  readonly #blocks: Block[] = [];
  readonly #keys = new KeyBlocks();
  #nextFree = 0;

  /** Buckets kept. */
  count = 0;
  /** Numbers ever given out: all entries are below. */
  end = 0;

  /** Adds a bucket with nothing used. `write` or `writeLog` must follow. */
  add(hash: number, key: string): number {
    const entry = this.#freeEntry();
    const { numbers, words } = this.#blockOf(entry);
    const word = (entry & (BLOCK_ENTRIES - 1)) * WORDS;
    words[word + EXPIRES_S] = 1;
    words[word + HASH] = hash;
    words[word + PREVIOUS] = 0;
    words[word + KEY] = this.#keys.put(key);
    words[word + KEY_LENGTH] = key.length;
    numbers[(entry & (BLOCK_ENTRIES - 1)) * NUMBERS + USED] = 0;
    this.count++;
    return entry;
  }

  drop(entry: number): void {
    this.#dropLog(entry);
    const { words } = this.#blockOf(entry);
    const word = (entry & (BLOCK_ENTRIES - 1)) * WORDS;
    this.#keys.free(words[word + KEY] ?? 0, words[word + KEY_LENGTH] ?? 0);
    words[word + EXPIRES_S] = 0;
    words[word + KEY] = this.#nextFree;
    this.#nextFree = entry + 1;
    this.count--;
  }

  hasKey(entry: number, key: string): boolean {
    const { words } = this.#blockOf(entry);
    const word = (entry & (BLOCK_ENTRIES - 1)) * WORDS;
    return words[word + KEY_LENGTH] === key.length && this.#keys.equals(words[word + KEY] ?? 0, key);
  }

  hashOf(entry: number): number {
    return this.#blockOf(entry).words[(entry & (BLOCK_ENTRIES - 1)) * WORDS + HASH] ?? 0;
  }

  /** Second in which the bucket means nothing any more; 0 if there is no such entry. */
  expiresS(entry: number): number {
    return this.#blockOf(entry).words[(entry & (BLOCK_ENTRIES - 1)) * WORDS + EXPIRES_S] ?? 0;
  }

  /** The log of an entry; undefined if it holds numbers. */
  logOf(entry: number): LogState | undefined {
    const block = this.#blockOf(entry);
    const index = entry & (BLOCK_ENTRIES - 1);
    return block.numbers[index * NUMBERS + USED] === IS_LOG ? block.logs?.[index] : undefined;
  }

  /** Copies the numbers of an entry that holds no log. */
  read(entry: number, into: BucketState): void {
    const { numbers, words } = this.#blockOf(entry);
    const index = entry & (BLOCK_ENTRIES - 1);
    into.atUs = numbers[index * NUMBERS + AT_US] ?? 0;
    into.used = numbers[index * NUMBERS + USED] ?? 0;
    into.previous = words[index * WORDS + PREVIOUS] ?? 0;
  }

  write(entry: number, state: BucketState, expiresS: number): void {
    this.#dropLog(entry);
    const { numbers, words } = this.#blockOf(entry);
    const index = entry & (BLOCK_ENTRIES - 1);
    numbers[index * NUMBERS + AT_US] = state.atUs;
    numbers[index * NUMBERS + USED] = state.used;
    words[index * WORDS + PREVIOUS] = state.previous;
    words[index * WORDS + EXPIRES_S] = expiresS;
  }

  writeLog(entry: number, log: LogState, expiresS: number): void {
    const block = this.#blockOf(entry);
    const index = entry & (BLOCK_ENTRIES - 1);
    block.logs ??= new Array<LogState | undefined>(BLOCK_ENTRIES).fill(undefined);
    block.logs[index] = log;
    block.numbers[index * NUMBERS + USED] = IS_LOG;
    block.words[index * WORDS + EXPIRES_S] = expiresS;
  }

  #dropLog(entry: number): void {
    const block = this.#blockOf(entry);
    const index = entry & (BLOCK_ENTRIES - 1);
    if (block.logs !== undefined) block.logs[index] = undefined;
  }

  #freeEntry(): number {
    if (this.#nextFree > 0) {
      const entry = this.#nextFree - 1;
      this.#nextFree = this.#blockOf(entry).words[(entry & (BLOCK_ENTRIES - 1)) * WORDS + KEY] ?? 0;
      return entry;
    }
    if (this.end === this.#blocks.length * BLOCK_ENTRIES) this.#blocks.push(new Block());
    return this.end++;
  }

  #blockOf(entry: number): Block {
    const block = this.#blocks[entry >>> BLOCK_BITS];
    if (block === undefined) throw new InvariantError(`entry ${entry} has a block`);
    return block;
  }
}
