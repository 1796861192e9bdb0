// The records of a HoldBook, in a memory that threads may share: how they lie there, and how one is found by bucket and id.

import { InvariantError } from "../base/invariant.ts";
import type { JournaledMemory } from "../base/journaled-memory.ts";
import { hashBucketKey, isHashAt, type KeyHash, readHash, writeHash } from "../domain/key-bytes.ts";
import type { Limit } from "../domain/limit.ts";
import { LIMIT_NUMBERS, type LimitNumbers, limitOfNumbers, numbersOfLimit } from "./held-limit.ts";

/** A record is 32 words, or 16 numbers. */
const RECORD_WORDS = 32;
const RECORD_NUMBERS = RECORD_WORDS / 2;
const RECORD_BYTES = RECORD_WORDS * 4;

export const Kind = { free: 0, bucket: 1, hold: 2, settled: 3, lows: 4 } as const;
export type Kind = (typeof Kind)[keyof typeof Kind];

/** The words of a record; a number takes the place of two words. `before`, `after` and `id` are those of holds and settled ids. */
export const WORD = {
  /** Its Kind; of a record with an id, the id's length is in the higher bytes. */
  kind: 0,
  /** The next record of its chain, or of the free records. */
  next: 1,
  /** The four words of the bucket's hash. */
  hash: 2,
  /** The one before and the one after it in its list. */
  before: 6,
  after: 7,
  id: 16,
  /** Of a bucket: its first and last hold, how many there are, who counts them, and its first record of lows. */
  first: 6,
  last: 7,
  size: 8,
  stats: 9,
  lows: 10,
  /** Of a bucket: the first LIMIT_WORDS numbers of the limit that opened the last hold (held-limit.ts). */
  limit: 11,
  /** Of record 0: the first free record, how many were ever in use at once, live holds, settled ids and their list, and a cursor. */
  free: 1,
  made: 2,
  live: 3,
  settled: 4,
  firstSettled: 5,
  lastSettled: 6,
  lookedAt: 7,
} as const;

/** The numbers of a record. */
export const NUMBER = {
  /** Of a hold; of a settled id, `endsAtUs` is when it may be forgotten. */
  cost: 4,
  paidAtUs: 5,
  endsAtUs: 6,
  payment: 7,
  /** Of a bucket: the first numbers of DebtLows, and the rest of the limit. */
  lowsHead: 8,
  limit: 11,
  /** Of a record of lows, whose word `size` says how many there are. */
  lows: 5,
} as const;
const LIMIT_WORDS = 4;
const LOWS_HEAD_NUMBERS = 3;
const LOWS_NUMBERS = RECORD_NUMBERS - NUMBER.lows;

const KIND_BITS = 8;
const KIND_MASK = (1 << KIND_BITS) - 1;
const ID_WORDS = RECORD_WORDS - WORD.id;
/** Longest id, in bytes. */
export const ID_BYTES_MAX = ID_WORDS * 4;
/** In place of the hash of an id, for the record of a bucket. */
const NO_ID = 0x5bd1e995;

/** Most settled ids for so many live holds. Beyond it, the one settled longest ago is dropped, even before its time. */
export function settledMaxOf(holdsMax: number): number {
  return Math.ceil(holdsMax / 10);
}

/** Most records: each hold may have a bucket of its own, with a record of lows; record 0 is none. */
function recordsMaxOf(holdsMax: number): number {
  return 1 + 3 * holdsMax + settledMaxOf(holdsMax);
}

function chainsOf(holdsMax: number): number {
  return 2 ** Math.ceil(Math.log2(holdsMax + 2));
}

/** Bytes of the records for so many live holds. */
export function holdBytes(holdsMax: number): number {
  return recordsMaxOf(holdsMax) * RECORD_BYTES + chainsOf(holdsMax) * 4;
}

/** Records are numbered from 1; 0 is none, and its record has what concerns all. */
export class HoldRecords {
  readonly #memory: JournaledMemory;
  readonly #recordsMax: number;
  readonly #firstWord: number;
  readonly #firstChain: number;
  readonly #chainMask: number;
  /** The id that is looked for, in the form of records. */
  readonly #id = new Int32Array(ID_WORDS);

  /** `at`: where the records begin in the memory, in bytes, a multiple of 8. */
  constructor(memory: JournaledMemory, at: number, holdsMax: number) {
    this.#memory = memory;
    this.#recordsMax = recordsMaxOf(holdsMax);
    this.#firstWord = at / 4;
    this.#firstChain = this.#firstWord + this.#recordsMax * RECORD_WORDS;
    this.#chainMask = chainsOf(holdsMax) - 1;
  }

  word(record: number, word: number): number {
    return this.#memory.words[this.#firstWord + record * RECORD_WORDS + word] as number;
  }

  setWord(record: number, word: number, value: number): void {
    this.#memory.setWord(this.#firstWord + record * RECORD_WORDS + word, value);
  }

  number(record: number, number: number): number {
    return this.#memory.numbers[this.#firstWord / 2 + record * RECORD_NUMBERS + number] as number;
  }

  setNumber(record: number, number: number, value: number): void {
    this.#memory.setNumber(this.#firstWord / 2 + record * RECORD_NUMBERS + number, value);
  }

  /** Adds to a word and returns the sum. */
  add(record: number, word: number, count: number): number {
    const sum = this.word(record, word) + count;
    this.setWord(record, word, sum);
    return sum;
  }

  kindOf(record: number): Kind {
    return (this.word(record, WORD.kind) & KIND_MASK) as Kind;
  }

  readHash(record: number, into: KeyHash): void {
    readHash(this.#memory.words, this.#hashAt(record), into);
  }

  /** Whether the record is of that bucket. */
  isOf(record: number, bucket: KeyHash): boolean {
    return isHashAt(this.#memory.words, this.#hashAt(record), bucket);
  }

  #hashAt(record: number): number {
    return this.#firstWord + record * RECORD_WORDS + WORD.hash;
  }

  /** The id of a record, one-byte. */
  idOf(record: number): string {
    let id = "";
    const length = this.word(record, WORD.kind) >>> KIND_BITS;
    for (let i = 0; i < length; i++)
      id += String.fromCharCode((this.word(record, WORD.id + (i >>> 2)) >>> ((i & 3) * 8)) & 0xff);
    return id;
  }

  /** A new record, which `find` does not find. Only `kind` has a meaning yet. */
  take(kind: Kind): number {
    let record = this.word(0, WORD.free);
    if (record !== 0) this.setWord(0, WORD.free, this.word(record, WORD.next));
    else {
      record = this.word(0, WORD.made) + 1;
      if (record >= this.#recordsMax)
        throw new InvariantError(`there are at most ${this.#recordsMax} records of holds`);
      this.setWord(0, WORD.made, record);
    }
    this.setWord(record, WORD.kind, kind);
    return record;
  }

  /** Frees a record, which `find` must not find any more. */
  release(record: number): void {
    this.setWord(record, WORD.kind, Kind.free);
    this.setWord(record, WORD.next, this.word(0, WORD.free));
    this.setWord(0, WORD.free, record);
  }

  /** Adds the record to a list, after `before` (0: as the first). The list's first and last are in the words `first` of `owner` and after it. */
  insert(record: number, owner: number, first: number, before: number): void {
    const after = before === 0 ? this.word(owner, first) : this.word(before, WORD.after);
    this.setWord(record, WORD.before, before);
    this.setWord(record, WORD.after, after);
    this.#link(before, after, record, record, owner, first);
  }

  /** Takes the record out of its list. */
  cut(record: number, owner: number, first: number): void {
    const before = this.word(record, WORD.before);
    const after = this.word(record, WORD.after);
    this.#link(before, after, after, before, owner, first);
  }

  /** Forgets all records, without a journal. */
  clear(): void {
    const { words } = this.#memory;
    const made = this.word(0, WORD.made);
    for (let record = 1; record <= made; record++) words[this.#chainWith(record)] = 0;
    words.fill(0, this.#firstWord, this.#firstWord + (made + 1) * RECORD_WORDS);
  }

  hasId(record: number): boolean {
    return this.word(record, WORD.kind) >>> KIND_BITS > 0;
  }

  /** Has `first` follow `before`, and `last` precede `after`. */
  #link(before: number, after: number, first: number, last: number, owner: number, list: number): void {
    if (before === 0) this.setWord(owner, list, first);
    else this.setWord(before, WORD.after, first);
    if (after === 0) this.setWord(owner, list + 1, last);
    else this.setWord(after, WORD.before, last);
  }

  /** Has `find` find the record. The id is empty for a bucket alone. */
  enter(record: number, bucket: KeyHash, id: string): void {
    const { length } = id;
    if (length > ID_BYTES_MAX) throw new InvariantError(`an id of ${length} bytes has at most ${ID_BYTES_MAX}`);
    this.setWord(record, WORD.kind, this.kindOf(record) | (length << KIND_BITS));
    writeHash(this.#memory, this.#hashAt(record), bucket);
    this.#packId(id);
    if (length > 0) for (let i = 0; i < ID_WORDS; i++) this.setWord(record, WORD.id + i, this.#id[i] as number);
    const chain = this.#chainOf(bucket.keyHash1, id);
    this.setWord(record, WORD.next, this.#memory.words[chain] as number);
    this.#memory.setWord(chain, record);
  }

  /** Has `find` not find the record any more; its id becomes empty. */
  leave(record: number): void {
    const chain = this.#chainWith(record);
    let at = this.#memory.words[chain] as number;
    const next = this.word(record, WORD.next);
    if (at === record) this.#memory.setWord(chain, next);
    else {
      while (this.word(at, WORD.next) !== record) at = this.word(at, WORD.next);
      this.setWord(at, WORD.next, next);
    }
    this.setWord(record, WORD.kind, this.kindOf(record));
  }

  /** The record of that kind, bucket and id; 0 if there is none. */
  find(kind: Kind, bucket: KeyHash, id: string): number {
    this.#packId(id);
    const kindAndLength = kind | (id.length << KIND_BITS);
    let record = this.#memory.words[this.#chainOf(bucket.keyHash1, id)] as number;
    while (record !== 0) {
      if (this.word(record, WORD.kind) === kindAndLength && this.isOf(record, bucket) && this.#hasId(record, id.length))
        return record;
      record = this.word(record, WORD.next);
    }
    return 0;
  }

  /** The numbers of a bucket's DebtLows. */
  lowsOf(bucket: number): number[] {
    const numbers: number[] = [];
    for (let i = 0; i < LOWS_HEAD_NUMBERS; i++) numbers.push(this.number(bucket, NUMBER.lowsHead + i));
    for (let at = this.word(bucket, WORD.lows); at !== 0; at = this.word(at, WORD.next))
      for (let i = 0; i < this.word(at, WORD.size); i++) numbers.push(this.number(at, NUMBER.lows + i));
    return numbers;
  }

  writeLows(bucket: number, numbers: readonly number[]): void {
    for (let i = 0; i < LOWS_HEAD_NUMBERS; i++) this.setNumber(bucket, NUMBER.lowsHead + i, numbers[i] as number);
    let owner = bucket;
    let link: number = WORD.lows;
    for (let from = LOWS_HEAD_NUMBERS; from < numbers.length; from += LOWS_NUMBERS) {
      let record = this.word(owner, link);
      if (record === 0) {
        record = this.take(Kind.lows);
        this.setWord(record, WORD.next, 0);
        this.setWord(owner, link, record);
      }
      const count = Math.min(LOWS_NUMBERS, numbers.length - from);
      this.setWord(record, WORD.size, count);
      for (let i = 0; i < count; i++) this.setNumber(record, NUMBER.lows + i, numbers[from + i] as number);
      owner = record;
      link = WORD.next;
    }
    const rest = this.word(owner, link);
    this.setWord(owner, link, 0);
    this.#releaseChain(rest);
  }

  dropLows(bucket: number): void {
    this.#releaseChain(this.word(bucket, WORD.lows));
  }

  limitOf(bucket: number): Limit {
    const numbers: number[] = [];
    for (let i = 0; i < LIMIT_WORDS; i++) numbers.push(this.word(bucket, WORD.limit + i));
    for (let i = LIMIT_WORDS; i < LIMIT_NUMBERS; i++) numbers.push(this.number(bucket, NUMBER.limit + i - LIMIT_WORDS));
    return limitOfNumbers(numbers as unknown as LimitNumbers);
  }

  writeLimit(bucket: number, limit: Limit): void {
    const numbers = numbersOfLimit(limit);
    for (let i = 0; i < LIMIT_WORDS; i++) this.setWord(bucket, WORD.limit + i, numbers[i] as number);
    for (let i = LIMIT_WORDS; i < LIMIT_NUMBERS; i++)
      this.setNumber(bucket, NUMBER.limit + i - LIMIT_WORDS, numbers[i] as number);
  }

  #releaseChain(first: number): void {
    for (let at = first; at !== 0; ) {
      const next = this.word(at, WORD.next);
      this.release(at);
      at = next;
    }
  }

  #hasId(record: number, length: number): boolean {
    for (let i = 0; i * 4 < length; i++) if (this.word(record, WORD.id + i) !== this.#id[i]) return false;
    return true;
  }

  #packId(id: string): void {
    this.#id.fill(0);
    for (let i = 0; i < id.length; i++)
      this.#id[i >>> 2] = (this.#id[i >>> 2] as number) | (id.charCodeAt(i) << ((i & 3) * 8));
  }

  /** The chain that leads to a record. */
  #chainWith(record: number): number {
    return this.#chainOf(this.word(record, WORD.hash + 1), this.idOf(record));
  }

  /** Callers choose ids, so their hash is keyed as well. */
  #chainOf(keyHash1: number, id: string): number {
    const hash = keyHash1 ^ (id === "" ? NO_ID : hashBucketKey(id));
    return this.#firstChain + (hash & this.#chainMask);
  }
}
