// The buckets of the memory store, each with its key as one record in a large typed array: what a take needs lies side by
// side, so that a bucket among millions costs one or two trips to memory and nothing on the garbage collector's heap.
// Records never move, so an address stays good until its record is dropped. Which address a key has is key-table.ts.

import type { LogState } from "../../algorithms/log-state.ts";
import type { BucketState } from "../../algorithms/step.ts";
import { InvariantError } from "../../core/invariant.ts";
import type { Keyed } from "../../core/key-bytes.ts";
import { LogPlaces } from "./log-places.ts";

// Addresses and sizes count in granules of eight bytes. Pages of a block that were never written to take no memory.
const BLOCK_BITS = 19;
const BLOCK_GRANULES = 1 << BLOCK_BITS;
const OFFSET_MASK = BLOCK_GRANULES - 1;

// Numbers of a record, by granule. A sliding log stands beside: `used` is then IS_LOG and AT_US its place.
const AT_US = 0;
const USED = 1;
const IS_LOG = -1;

// Words of a record.
const PREVIOUS = 4;
/** 0 in a free record, which has the address of the next free one of its size in HASH. */
const EXPIRES_S = 5;
const HASH = 6;
const KEY_LENGTH = 7;
const KEY = 8;
const HEAD_WORDS = 8;
/** Room for the longest key there can be, twice over; a record lies in one block. */
const KEY_BYTES_MAX = 1_000_000;

// Sizes go up in steps of a granule, then of an eighth of the size: freed records fit what comes next.
const FINE_GRANULES_MAX = 16;
const SIZES_MAX = 256;

class Block {
  readonly numbers = new Float64Array(BLOCK_GRANULES);
  readonly words = new Int32Array(this.numbers.buffer);
  /** Granules given out. */
  end = 0;
}

/** Buckets by address. An address is a whole number from 1 to 2^31 - 1. */
export class BucketRecords {
  readonly #blocks: Block[] = [];
  readonly #logs = new LogPlaces();
  /** By size: the address of a free record, 0 if there is none. */
  readonly #free = new Int32Array(SIZES_MAX);

  /** Buckets kept. */
  count = 0;
  /** Records there are, free ones included. */
  made = 0;

  /** Adds a bucket with nothing used. `write` or `writeLog` must follow. `keyed` has its key as bytes. */
  add(keyed: Keyed): number {
    const size = sizeOf(keyed.keyLength);
    const address = this.#place(size);
    const { numbers, words } = this.#blockOf(address);
    const offset = address & OFFSET_MASK;
    const word = offset * 2;
    words[word + PREVIOUS] = 0;
    words[word + EXPIRES_S] = 1;
    words[word + HASH] = keyed.keyHash;
    words[word + KEY_LENGTH] = keyed.keyLength;
    numbers[offset + USED] = 0;
    const from = keyed.keyAt >>> 2;
    const keyWords = keyed.keys.words;
    const count = (keyed.keyLength + 3) >>> 2;
    for (let i = 0; i < count; i++) words[word + KEY + i] = keyWords[from + i] as number;
    this.count++;
    return address;
  }

  drop(address: number): void {
    this.#dropLog(address);
    const { words } = this.#blockOf(address);
    const word = (address & OFFSET_MASK) * 2;
    const place = placeOfSize(sizeOf(words[word + KEY_LENGTH] as number));
    words[word + EXPIRES_S] = 0;
    words[word + HASH] = this.#free[place] as number;
    this.#free[place] = address;
    this.count--;
  }

  /** True if that is the record's key. `keyed` has its key as bytes. */
  hasKey(address: number, keyed: Keyed): boolean {
    const { words } = this.#blockOf(address);
    const word = (address & OFFSET_MASK) * 2;
    if (words[word + KEY_LENGTH] !== keyed.keyLength) return false;
    const from = keyed.keyAt >>> 2;
    const keyWords = keyed.keys.words;
    const count = (keyed.keyLength + 3) >>> 2;
    for (let i = 0; i < count; i++) if (words[word + KEY + i] !== keyWords[from + i]) return false;
    return true;
  }

  hashOf(address: number): number {
    return (this.#blockOf(address).words[(address & OFFSET_MASK) * 2 + HASH] as number) >>> 0;
  }

  /** Second in which the bucket means nothing any more; 0 if the record is free. */
  expiresS(address: number): number {
    return (this.#blockOf(address).words[(address & OFFSET_MASK) * 2 + EXPIRES_S] as number) >>> 0;
  }

  /** Has the record mean something until then. */
  keepUntil(address: number, expiresS: number): void {
    this.#blockOf(address).words[(address & OFFSET_MASK) * 2 + EXPIRES_S] = expiresS;
  }

  /** The record behind this one, free or not, and after the last the first again; 0 if there never was any. */
  next(address: number): number {
    let block = address >>> BLOCK_BITS;
    let offset = address & OFFSET_MASK;
    if (address > 0) offset += sizeOf(this.#blockOf(address).words[offset * 2 + KEY_LENGTH] as number);
    if (offset >= (this.#blocks[block]?.end ?? 0)) {
      block = block + 1 < this.#blocks.length ? block + 1 : 0;
      offset = 0;
    }
    // The first granule of all is left out: 0 is no address.
    return block === 0 && offset === 0 ? Math.min(1, this.#blocks.length) : block * BLOCK_GRANULES + offset;
  }

  /** The log of a record; undefined if it holds numbers. */
  logOf(address: number): LogState | undefined {
    const { numbers } = this.#blockOf(address);
    const offset = address & OFFSET_MASK;
    return numbers[offset + USED] === IS_LOG ? this.#logs.at(numbers[offset + AT_US] as number) : undefined;
  }

  /** Copies the numbers of a record that holds no log. */
  read(address: number, into: BucketState): void {
    const { numbers, words } = this.#blockOf(address);
    const offset = address & OFFSET_MASK;
    into.atUs = numbers[offset + AT_US] as number;
    into.used = numbers[offset + USED] as number;
    into.previous = (words[offset * 2 + PREVIOUS] as number) >>> 0;
  }

  write(address: number, state: BucketState, expiresS: number): void {
    this.#dropLog(address);
    const { numbers, words } = this.#blockOf(address);
    const offset = address & OFFSET_MASK;
    numbers[offset + AT_US] = state.atUs;
    numbers[offset + USED] = state.used;
    words[offset * 2 + PREVIOUS] = state.previous;
    words[offset * 2 + EXPIRES_S] = expiresS;
  }

  writeLog(address: number, log: LogState, expiresS: number): void {
    const { numbers, words } = this.#blockOf(address);
    const offset = address & OFFSET_MASK;
    if (numbers[offset + USED] === IS_LOG) {
      this.#logs.replace(numbers[offset + AT_US] as number, log);
    } else {
      numbers[offset + AT_US] = this.#logs.add(log);
      numbers[offset + USED] = IS_LOG;
    }
    words[offset * 2 + EXPIRES_S] = expiresS;
  }

  #dropLog(address: number): void {
    const { numbers } = this.#blockOf(address);
    const offset = address & OFFSET_MASK;
    if (numbers[offset + USED] === IS_LOG) this.#logs.drop(numbers[offset + AT_US] as number);
  }

  #place(size: number): number {
    const place = placeOfSize(size);
    const free = this.#free[place] as number;
    if (free !== 0) {
      this.#free[place] = this.#blockOf(free).words[(free & OFFSET_MASK) * 2 + HASH] as number;
      return free;
    }
    let block = this.#blocks[this.#blocks.length - 1];
    if (block === undefined || block.end + size > BLOCK_GRANULES) {
      block = new Block();
      block.end = this.#blocks.length === 0 ? 1 : 0;
      this.#blocks.push(block);
    }
    const address = (this.#blocks.length - 1) * BLOCK_GRANULES + block.end;
    block.end += size;
    this.made++;
    return address;
  }

  #blockOf(address: number): Block {
    const block = this.#blocks[address >>> BLOCK_BITS];
    if (block === undefined) throw new InvariantError(`the record at ${address} has a block`);
    return block;
  }
}

/** Granules of a record whose key has that many bytes. */
function sizeOf(keyLength: number): number {
  const granules = (HEAD_WORDS >>> 1) + ((keyLength + 7) >>> 3);
  if (granules <= FINE_GRANULES_MAX) return granules;
  if (keyLength > KEY_BYTES_MAX)
    throw new InvariantError(`a key of ${keyLength} bytes is at most ${KEY_BYTES_MAX} long`);
  const step = 1 << (28 - Math.clz32(granules - 1));
  return (granules + step - 1) & -step;
}

/** Sizes in order: where the free records of a size are found. */
function placeOfSize(size: number): number {
  if (size <= FINE_GRANULES_MAX) return size;
  const power = 31 - Math.clz32(size - 1);
  return FINE_GRANULES_MAX + (power - 4) * 8 + ((size - (1 << power)) >>> (power - 3));
}
