// The tables of a HoldBook: buckets with live holds, these holds, and settled ids. A table has an array for each field,
// with room for the most rows; rows that were never used take no memory. Rows are numbered from 1, and 0 means no row.

import { InvariantError } from "../../base/invariant.ts";
import type { Reserved } from "../../base/reserved.ts";
import { hashBucketKey, isHashAt, type KeyHash, readHash, writeHash } from "../domain/key-bytes.ts";
import type { Limit } from "../domain/limit.ts";
import type { LimitStats } from "../domain/stats.ts";
import { LIMIT_NUMBERS, type LimitNumbers, limitOfNumbers, numbersOfLimit } from "./held-limit.ts";
import { NumberLists } from "./number-lists.ts";

/** Longest id, in bytes. */
export const ID_BYTES_MAX = 64;
/** Words of a bucket's hash. */
const HASH_WORDS = 4;
/** Bytes of a block of lows: seven numbers. */
const LOWS_BLOCK_BYTES = 64;
/** Numbers of DebtLows before its list of lows, and those of each low. */
const LOWS_HEAD = 3;

/** Finds rows by a hash: rows with like hashes are in one chain. */
class Chains {
  readonly #first: Int32Array;
  readonly #next: Int32Array;
  readonly #mask: number;

  constructor(memory: Reserved, rowsMax: number) {
    const chains = 2 ** Math.ceil(Math.log2(rowsMax + 1));
    this.#first = memory.words(chains);
    this.#next = memory.words(rowsMax + 1);
    this.#mask = chains - 1;
  }

  first(hash: number): number {
    return this.#first[hash & this.#mask] as number;
  }

  next(row: number): number {
    return this.#next[row] as number;
  }

  enter(row: number, hash: number): void {
    this.#next[row] = this.first(hash);
    this.#first[hash & this.#mask] = row;
  }

  leave(row: number, hash: number): void {
    let before = this.first(hash);
    if (before === row) this.#first[hash & this.#mask] = this.next(row);
    else {
      while (this.next(before) !== row) before = this.next(before);
      this.#next[before] = this.next(row);
    }
  }
}

/** Gives rows out, and takes them back. */
class Rows {
  readonly #free: number[] = [];
  readonly #rowsMax: number;
  /** Rows ever given out at once. */
  made = 0;

  constructor(rowsMax: number) {
    this.#rowsMax = rowsMax;
  }

  get count(): number {
    return this.made - this.#free.length;
  }

  take(): number {
    const row = this.#free.pop() ?? ++this.made;
    if (row > this.#rowsMax) throw new InvariantError(`a table of ${this.#rowsMax} rows has no row ${row}`);
    return row;
  }

  release(row: number): void {
    this.#free.push(row);
  }

  clear(): void {
    this.#free.length = 0;
    this.made = 0;
  }
}

/** Ids of rows, one-byte. */
class Ids {
  readonly #lengths: Uint8Array;
  readonly #bytes: Uint8Array;

  constructor(memory: Reserved, rowsMax: number) {
    this.#lengths = memory.bytes(rowsMax + 1);
    this.#bytes = memory.bytes((rowsMax + 1) * ID_BYTES_MAX);
  }

  of(row: number): string {
    return String.fromCharCode(...this.bytesOf(row));
  }

  bytesOf(row: number): Uint8Array {
    const at = row * ID_BYTES_MAX;
    return this.#bytes.subarray(at, at + (this.#lengths[row] as number));
  }

  is(row: number, id: string): boolean {
    if (this.#lengths[row] !== id.length) return false;
    const at = row * ID_BYTES_MAX;
    for (let i = 0; i < id.length; i++) if (this.#bytes[at + i] !== id.charCodeAt(i)) return false;
    return true;
  }

  set(row: number, id: string): void {
    if (id.length > ID_BYTES_MAX)
      throw new InvariantError(`expected an id of at most ${ID_BYTES_MAX} bytes, got ${id.length}`);
    this.#lengths[row] = id.length;
    const at = row * ID_BYTES_MAX;
    for (let i = 0; i < id.length; i++) this.#bytes[at + i] = id.charCodeAt(i);
  }
}

/** The buckets that have live holds. */
export class HeldBuckets {
  readonly #rows: Rows;
  readonly #chains: Chains;
  readonly #hashes: Int32Array;
  readonly #limits: Float64Array;
  readonly #lowsHead: Float64Array;
  readonly #lows: Int32Array;
  readonly #lists: NumberLists;
  /** The hold that ends soonest, the one that ends last, and how many there are; 0 in rows that no bucket has. */
  readonly first: Int32Array;
  readonly last: Int32Array;
  readonly size: Int32Array;
  /** Who counts the holds. */
  readonly stats: (LimitStats | undefined)[] = [undefined];

  constructor(memory: Reserved, bucketsMax: number) {
    const rows = bucketsMax + 1;
    this.#rows = new Rows(bucketsMax);
    this.#chains = new Chains(memory, bucketsMax);
    this.#limits = memory.numbers(rows * LIMIT_NUMBERS);
    this.#lowsHead = memory.numbers(rows * LOWS_HEAD);
    this.#hashes = memory.words(rows * HASH_WORDS);
    this.#lows = memory.words(rows);
    this.first = memory.words(rows);
    this.last = memory.words(rows);
    this.size = memory.words(rows);
    // Seven lows for each bucket, if there were as many buckets as holds.
    this.#lists = new NumberLists(memory, 2 * bucketsMax, LOWS_BLOCK_BYTES);
  }

  /** Rows that are or were in use. */
  get made(): number {
    return this.#rows.made;
  }

  /** The bucket's row; 0 if it has no holds. */
  find(bucket: KeyHash): number {
    let row = this.#chains.first(bucket.keyHash1);
    while (row !== 0 && !this.isOf(row, bucket)) row = this.#chains.next(row);
    return row;
  }

  isOf(row: number, bucket: KeyHash): boolean {
    return isHashAt(this.#hashes, row * HASH_WORDS, bucket);
  }

  readHash(row: number, into: KeyHash): void {
    readHash(this.#hashes, row * HASH_WORDS, into);
  }

  /** A row for a bucket that has none. */
  add(bucket: KeyHash, stats: LimitStats): number {
    const row = this.#rows.take();
    writeHash(this.#hashes, row * HASH_WORDS, bucket);
    this.#chains.enter(row, bucket.keyHash1);
    this.first[row] = 0;
    this.last[row] = 0;
    this.size[row] = 0;
    this.#lows[row] = 0;
    this.stats[row] = stats;
    return row;
  }

  remove(row: number): void {
    this.#chains.leave(row, this.#hashes[row * HASH_WORDS + 1] as number);
    this.#lists.drop(this.#lows[row] as number);
    this.size[row] = 0;
    this.stats[row] = undefined;
    this.#rows.release(row);
  }

  /** The limit that opened the bucket's last hold, as far as a store needs it. */
  limitOf(row: number): Limit {
    const at = row * LIMIT_NUMBERS;
    return limitOfNumbers([...this.#limits.subarray(at, at + LIMIT_NUMBERS)] as unknown as LimitNumbers);
  }

  setLimit(row: number, limit: Limit): void {
    this.#limits.set(numbersOfLimit(limit), row * LIMIT_NUMBERS);
  }

  /** The numbers of the bucket's DebtLows. */
  lowsOf(row: number): number[] {
    const at = row * LOWS_HEAD;
    const numbers = [...this.#lowsHead.subarray(at, at + LOWS_HEAD)];
    this.#lists.read(this.#lows[row] as number, numbers, LOWS_HEAD);
    return numbers;
  }

  setLows(row: number, numbers: readonly number[]): void {
    for (let i = 0; i < LOWS_HEAD; i++) this.#lowsHead[row * LOWS_HEAD + i] = numbers[i] as number;
    const list = this.#lows[row] as number;
    if (numbers.length > LOWS_HEAD) {
      const lows = numbers.slice(LOWS_HEAD);
      this.#lows[row] = this.#lists.write(list, lows, lows.length);
    } else if (list !== 0) {
      this.#lists.drop(list);
      this.#lows[row] = 0;
    }
  }

  clear(): void {
    for (let row = 1; row <= this.made; row++) if (this.size[row] !== 0) this.remove(row);
    this.#rows.clear();
    this.#lists.clear();
    this.stats.length = 1;
  }
}

/** The live holds. Callers choose ids, so their hash is keyed like that of buckets. */
export class LiveHolds {
  readonly #rows: Rows;
  readonly #chains: Chains;
  readonly #ids: Ids;
  readonly cost: Float64Array;
  readonly paidAtUs: Float64Array;
  readonly endsAtUs: Float64Array;
  /** Number of the payment (DebtLows). */
  readonly payment: Float64Array;
  /** Row of the bucket. */
  readonly bucket: Int32Array;
  /** The hold of the bucket that ends before it, and the one that ends after it. */
  readonly before: Int32Array;
  readonly after: Int32Array;

  constructor(memory: Reserved, holdsMax: number) {
    const rows = holdsMax + 1;
    this.#rows = new Rows(holdsMax);
    this.#chains = new Chains(memory, holdsMax);
    this.#ids = new Ids(memory, holdsMax);
    this.cost = memory.numbers(rows);
    this.paidAtUs = memory.numbers(rows);
    this.endsAtUs = memory.numbers(rows);
    this.payment = memory.numbers(rows);
    this.bucket = memory.words(rows);
    this.before = memory.words(rows);
    this.after = memory.words(rows);
  }

  get count(): number {
    return this.#rows.count;
  }

  /** The hold of that id, in the bucket of that row; 0 if there isn't one. */
  find(bucket: number, id: string): number {
    let row = this.#chains.first(hashOfId(bucket, id));
    while (row !== 0 && !(this.bucket[row] === bucket && this.#ids.is(row, id))) row = this.#chains.next(row);
    return row;
  }

  idOf(row: number): string {
    return this.#ids.of(row);
  }

  idBytesOf(row: number): Uint8Array {
    return this.#ids.bytesOf(row);
  }

  /** A new hold, in no list yet. With an empty id `find` does not find it. */
  add(bucket: number, id: string): number {
    const row = this.#rows.take();
    this.bucket[row] = bucket;
    this.#ids.set(row, id);
    if (id !== "") this.#chains.enter(row, hashOfId(bucket, id));
    return row;
  }

  /** Removes the hold from its hash chain and clears its id. */
  dropId(row: number): void {
    const id = this.#ids.of(row);
    if (id === "") return;
    this.#chains.leave(row, hashOfId(this.bucket[row] as number, id));
    this.#ids.set(row, "");
  }

  remove(row: number): void {
    this.dropId(row);
    this.#rows.release(row);
  }

  /** All holds must have been removed. */
  clear(): void {
    this.#rows.clear();
  }
}

function hashOfId(bucket: number, id: string): number {
  return hashBucketKey(id) ^ Math.imul(bucket, 0x9e3779b1);
}

/** Settled ids, each under its bucket's hash, until they may be forgotten. Rows are a ring, in order of settlement. */
export class SettledIds {
  readonly #rowsMax: number;
  readonly #chains: Chains;
  readonly #ids: Ids;
  readonly #hashes: Int32Array;
  /** 0 in rows whose id was settled once more, later. */
  readonly #forgetAtUs: Float64Array;
  /** The row of the one that was settled longest ago, and how many rows are in use. */
  #oldest = 1;
  #count = 0;
  /** Rows that are or were in use. */
  made = 0;

  constructor(memory: Reserved, rowsMax: number) {
    this.#rowsMax = rowsMax;
    this.#chains = new Chains(memory, rowsMax);
    this.#ids = new Ids(memory, rowsMax);
    this.#forgetAtUs = memory.numbers(rowsMax + 1);
    this.#hashes = memory.words((rowsMax + 1) * HASH_WORDS);
  }

  /** When the id may be forgotten; 0 if it is not known. */
  forgetAtUs(bucket: KeyHash, id: string): number {
    const row = this.#find(bucket, id);
    return row === 0 ? 0 : (this.#forgetAtUs[row] as number);
  }

  /** Adds the id, or replaces it. Drops the oldest that may be forgotten, at most `dropsMax`, or one without room. */
  add(bucket: KeyHash, id: string, nowUs: number, forgetAtUs: number, dropsMax: number): void {
    const known = this.#find(bucket, id);
    if (known !== 0) this.#empty(known);
    for (let drops = 0; drops < dropsMax && this.#count > 0; drops++) {
      if (this.#count < this.#rowsMax && (this.#forgetAtUs[this.#oldest] as number) > nowUs) break;
      this.#empty(this.#oldest);
      this.#oldest = this.#after(this.#oldest, 1);
      this.#count--;
    }
    const row = this.#after(this.#oldest, this.#count++);
    this.made = Math.max(this.made, row);
    writeHash(this.#hashes, row * HASH_WORDS, bucket);
    this.#ids.set(row, id);
    this.#forgetAtUs[row] = forgetAtUs;
    this.#chains.enter(row, this.#hashOf(row));
  }

  /** The id of the row, if it has one. Writes its bucket's hash to `into` then. */
  at(row: number, into: KeyHash): { readonly id: string; readonly forgetAtUs: number } | undefined {
    const forgetAtUs = this.#forgetAtUs[row] as number;
    if (forgetAtUs === 0) return undefined;
    readHash(this.#hashes, row * HASH_WORDS, into);
    return { id: this.#ids.of(row), forgetAtUs };
  }

  clear(): void {
    for (let row = 1; row <= this.made; row++) this.#empty(row);
    this.#oldest = 1;
    this.#count = 0;
    this.made = 0;
  }

  #find(bucket: KeyHash, id: string): number {
    let row = this.#chains.first(hashBucketKey(id) ^ bucket.keyHash1);
    while (row !== 0 && !(isHashAt(this.#hashes, row * HASH_WORDS, bucket) && this.#ids.is(row, id)))
      row = this.#chains.next(row);
    return row;
  }

  #empty(row: number): void {
    if (this.#forgetAtUs[row] === 0) return;
    this.#chains.leave(row, this.#hashOf(row));
    this.#forgetAtUs[row] = 0;
  }

  #hashOf(row: number): number {
    return hashBucketKey(this.#ids.of(row)) ^ (this.#hashes[row * HASH_WORDS + 1] as number);
  }

  #after(row: number, rows: number): number {
    return ((row - 1 + rows) % this.#rowsMax) + 1;
  }
}
