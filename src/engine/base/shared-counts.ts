// The counters that metrics and pages show, in memory that the threads of the process share: a row for each thread. A thread writes its
// own row alone, with plain stores; readers add up the rows. A thread that replaces another inherits its row, so no sum falls.
//
// A name has the same place in all rows. Names are looked up and given up under a lock: at the start, when rules load, at a first value.
// A thread that ends meanwhile leaves nothing half done: `release` takes back what it had begun and frees the lock. A place without a
// name has zeros in every row.

import { hash } from "node:crypto";
import {
  cellOf,
  ENTRY_WORDS,
  Entry,
  type EntryField,
  HASH_WORDS,
  layoutOf,
  livingBit,
  PLACE_CELLS,
  placeAt,
  TEXT_BYTES,
  THREADS_MAX,
  Word,
} from "./count-layout.ts";
import { getOrInsert } from "./get-or-insert.ts";
import { JournaledMemory } from "./journaled-memory.ts";
import type { LongWork } from "./long-work.ts";
import { freeLock, ownerOf, takeLock } from "./shared-lock.ts";
import { divideDown } from "./units.ts";

/** One place in so many is kept for names that are never given up. */
const PLACES_PER_GROUP_PLACE = 16;

/** Names that belong to one and go with it that are given up under one lock. */
const CHILDREN_AT_ONCE = 64;

/** Bits of a place in the number of a name (`numberOf`); the others tell the names apart that have had it. */
const PLACE_BITS = 20;

/** Names by how they are given up: never, or together with others of their kind. */
export const NameKind = { group: 0, limit: 1, domain: 2 } as const;
export type NameKind = (typeof NameKind)[keyof typeof NameKind];

/** What threads agree on for a name: none, or whether it has a series of its own or is summed with others (series-book.ts). */
export const Mark = { none: 0, own: 1, summed: 2 } as const;
export type Mark = (typeof Mark)[keyof typeof Mark];

/** Rows of counters: of the threads of a process, or of a part that counts for itself. */
export interface CountRows {
  /** The row of this thread. */
  readonly own: Float64Array;
  readonly rows: readonly Float64Array[];
  /** Cells that belong to no thread: what names that are gone have counted, and what was read of others (Counts.takeNew). */
  readonly common: Float64Array;
}

/** What a name has that can be given up. */
interface NameOptions {
  readonly kind: NameKind;
  /** Other threads learn of the name by this text (`texts`). A text that is too long gets no place. */
  readonly text?: string;
  /** The place of the name that this one belongs to: it is given up with that one. */
  readonly parent?: number | undefined;
  /** The place whose common row inherits what a summed name has counted. Whoever uses the name uses the heir, too. */
  readonly heir?: number | undefined;
}

/** One thread's view of the counters. Places are given as the number of their first cell. */
export class SharedCounts implements CountRows {
  readonly own: Float64Array;
  readonly rows: readonly Float64Array[];
  readonly common: Float64Array;
  readonly #memory: JournaledMemory;
  readonly #words: Int32Array;
  readonly #texts: Buffer;
  readonly #layout: ReturnType<typeof layoutOf>;
  readonly #row: number;

  /** `row`: of this thread, from 0. -1: one that counts nothing and only calls `release`. */
  constructor(buffer: SharedArrayBuffer, row: number) {
    const [, threads = 0, places = 0] = new Int32Array(buffer, 0, Word.chains);
    this.#layout = layoutOf(places, threads);
    const { journalAt, journalEntries, rowCells } = this.#layout;
    const cellsOf = (index: number) => new Float64Array(buffer, this.#rowStart(index) * 8, rowCells);
    this.rows = Array.from({ length: threads }, (_, index) => cellsOf(index));
    this.common = cellsOf(-1);
    this.own = this.rows[row] ?? this.common;
    this.#memory = new JournaledMemory(buffer, journalAt, journalEntries);
    this.#words = this.#memory.words;
    this.#texts = Buffer.from(buffer, this.#layout.textsAt, this.#layout.texts * TEXT_BYTES);
    this.#row = row;
    if (row < 0) return;
    Atomics.add(this.#words, Word.starts + row, 1);
    Atomics.or(this.#words, ...livingBit(row));
  }

  /** How many threads have had the row. Gauges of an earlier one are void. */
  startsOf(row: number): number {
    return Atomics.load(this.#words, Word.starts + row);
  }

  get row(): number {
    return this.#row;
  }

  /** The place of a name that is never given up, with room for so many cells; undefined if there is no room. */
  group(name: string, cells: number): number | undefined {
    return this.#place(name, { kind: NameKind.group }, Math.ceil(cells / PLACE_CELLS));
  }

  /** The place of a name that this thread uses from now on; undefined if it is new and there is no room. */
  use(name: string, options: NameOptions): number | undefined {
    return this.#place(name, options, 1);
  }

  /** A number of 32 bits, above 0, for the name that has that place now. All threads have the same. */
  numberOf(at: number): number {
    const place = placeAt(at);
    return (this.#get(place, "namesBefore") << PLACE_BITS) | place;
  }

  /** The place of the name of that number; undefined if the name was given up. */
  placeOf(number: number): number | undefined {
    const at = cellOf(number & ((1 << PLACE_BITS) - 1));
    return at >= 0 && this.numberOf(at) === number ? at : undefined;
  }

  /** What threads have agreed on for the name at that place. */
  markOf(at: number): Mark {
    return this.#get(placeAt(at), "mark") as Mark;
  }

  /** To be called in `locked`. */
  mark(at: number, mark: Mark): void {
    this.#set(placeAt(at), "mark", mark);
  }

  /** Texts of names of a kind that were made after `since`, the oldest first, and the `since` for the next question; undefined if none was. */
  texts(kind: NameKind, since: number): { readonly made: number; readonly texts: readonly string[] } | undefined {
    if (this.textsMade <= since) return undefined;
    return this.locked(() => {
      const places = this.#all((place) => this.#get(place, "made") > since && this.#get(place, "kind") === kind);
      places.sort((one, other) => this.#get(one, "made") - this.#get(other, "made"));
      return { made: this.textsMade, texts: places.map((place) => this.#textOf(place)) };
    });
  }

  /** How many texts were ever made. */
  get textsMade(): number {
    return Atomics.load(this.#words, Word.textsMade);
  }

  /** The places of names that are summed, by their heir's place. To be called in `locked`, with what reads them. */
  summed(): Map<number, number[]> {
    const summed = new Map<number, number[]>();
    for (const place of this.#all((one) => this.#get(one, "mark") === Mark.summed)) {
      getOrInsert(summed, cellOf(this.#get(place, "heir")), (): number[] => []).push(cellOf(place));
    }
    return summed;
  }

  /**
   * Gives up this thread's names of a kind but those whose place `isKept`, which is asked again when a name's turn comes. A name that no thread
   * uses any more loses its place and its counts, and so do those that belong to it. Heirs go last.
   */
  *giveUpAllBut(kind: NameKind, isKept: (at: number) => boolean): LongWork<void> {
    const isGiven = (place: number, ofHeirs: boolean) =>
      this.#get(place, "kind") === kind &&
      this.#get(place, "parent") === 0 &&
      (this.#get(place, "heir") === 0) === ofHeirs &&
      this.#isUsed(place) &&
      !isKept(cellOf(place));
    for (const ofHeirs of [false, true]) {
      for (let place = 1; place <= (this.#words[Word.used] as number); place++) {
        yield;
        while (isGiven(place, ofHeirs) && this.locked(() => isGiven(place, ofHeirs) && this.#giveUp(place))) yield;
      }
    }
  }

  /** To be called until it returns false: a name that many belong to takes several calls. */
  #giveUp(place: number): boolean {
    if (this.#isUsedByOthers(place)) {
      this.#setUsed(place, false);
      return false;
    }
    // Each is a change of its own: all of them are more than the journal holds.
    for (let i = 0; i < CHILDREN_AT_ONCE; i++) {
      const child = this.#get(place, "child");
      if (child === 0) {
        this.#free(place);
        return false;
      }
      this.#set(place, "child", this.#get(child, "sibling"));
      this.#free(child);
      this.#memory.commit();
    }
    return true;
  }

  /** The rows of threads that live, the lowest first. */
  living(): number[] {
    return [...this.rows.keys()].filter((row) => {
      const [word, bit] = livingBit(row);
      return (Atomics.load(this.#words, word) & bit) !== 0;
    });
  }

  /** The thread of that row has ended: takes back what it had begun, and frees the lock if it held that. */
  release(row: number): void {
    const [word, bit] = livingBit(row);
    Atomics.and(this.#words, word, ~bit);
    if (ownerOf(this.#words, Word.lock) !== row + 1) return;
    this.#memory.undo();
    freeLock(this.#words, Word.lock);
  }

  /** Runs `work` while no other thread changes names. */
  locked<T>(work: () => T): T {
    if (ownerOf(this.#words, Word.lock) === this.#row + 1) return work();
    takeLock(this.#words, Word.lock, this.#row + 1);
    try {
      const result = work();
      this.#memory.commit();
      return result;
    } catch (error) {
      this.#memory.undo();
      throw error;
    } finally {
      freeLock(this.#words, Word.lock);
    }
  }

  #place(name: string, options: NameOptions, places: number): number | undefined {
    const wanted = hash("sha256", name, "buffer");
    return this.locked(() => {
      const place = this.#find(wanted) ?? this.#make(wanted, options, places);
      if (place === undefined) return undefined;
      this.#setUsed(place, true);
      return cellOf(place);
    });
  }

  #find(wanted: Buffer): number | undefined {
    let place = this.#words[this.#chainOf(wanted.readInt32LE(0))] as number;
    while (place > 0 && !this.#isOf(place, wanted)) place = this.#get(place, "next");
    return place > 0 ? place : undefined;
  }

  #isOf(place: number, wanted: Buffer): boolean {
    for (let i = 0; i < HASH_WORDS; i++) {
      if (this.#words[this.#at(place) + Entry.hash + i] !== wanted.readInt32LE(4 * i)) return false;
    }
    return true;
  }

  #make(wanted: Buffer, { kind, text, parent, heir }: NameOptions, places: number): number | undefined {
    const textBytes = Buffer.byteLength(text ?? "");
    if (textBytes > TEXT_BYTES) return undefined;
    const place = this.#takeFree(kind, places, text !== undefined);
    if (place === undefined) return undefined;
    for (let i = 0; i < HASH_WORDS; i++)
      this.#memory.setWord(this.#at(place) + Entry.hash + i, wanted.readInt32LE(4 * i));
    this.#set(place, "mark", Mark.none);
    this.#set(place, "heir", heir === undefined ? 0 : placeAt(heir));
    if (parent !== undefined) this.#setParent(place, placeAt(parent));
    this.#set(place, "kind", kind);
    if (text !== undefined) this.#setText(place, text);
    const chain = this.#chainOf(wanted.readInt32LE(0));
    this.#set(place, "next", this.#words[chain] as number);
    this.#memory.setWord(chain, place);
    return place;
  }

  #setParent(place: number, parent: number): void {
    this.#set(place, "parent", parent);
    this.#set(place, "sibling", this.#get(parent, "child"));
    this.#set(parent, "child", place);
  }

  // A place that once had a text keeps the room for one.
  #takeFree(kind: NameKind, places: number, hasText: boolean): number | undefined {
    const list = hasText ? Word.freeWithText : Word.free;
    const free = this.#words[list] as number;
    if (places === 1 && free > 0) {
      this.#memory.setWord(list, this.#get(free, "next"));
      return free;
    }
    const all = this.#words[Word.places] as number;
    // However many rules there are, the counters of the service find room.
    const placesMax = kind === NameKind.group ? all : all - divideDown(all, PLACES_PER_GROUP_PLACE);
    const place = (this.#words[Word.used] as number) + 1;
    const textNumber = (this.#words[Word.textsUsed] as number) + 1;
    if (place + places - 1 > placesMax || (hasText && textNumber > this.#layout.texts)) return undefined;
    this.#memory.setWord(Word.used, place + places - 1);
    if (hasText) {
      this.#memory.setWord(Word.textsUsed, textNumber);
      this.#set(place, "text", textNumber);
    }
    return place;
  }

  #free(place: number): void {
    const { numbers } = this.#memory;
    const common = this.#rowStart(-1) + cellOf(place);
    const heir =
      this.#get(place, "mark") === Mark.summed ? this.#rowStart(-1) + cellOf(this.#get(place, "heir")) : undefined;
    for (let i = 0; i < PLACE_CELLS; i++) {
      let sum = 0;
      for (let row = 0; row < this.rows.length; row++) {
        const at = this.#rowStart(row) + cellOf(place) + i;
        sum += numbers[at] as number;
        this.#memory.setNumber(at, 0);
      }
      if (heir !== undefined) this.#memory.setNumber(heir + i, (numbers[heir + i] as number) + sum);
      this.#memory.setNumber(common + i, 0);
    }
    this.#unlink(place);
    for (let i = 0; i < THREADS_MAX / 32; i++) this.#memory.setWord(this.#at(place) + Entry.users + i, 0);
    for (const field of ["kind", "mark", "heir", "parent", "sibling", "textBytes", "made"] as const)
      this.#set(place, field, 0);
    this.#set(place, "namesBefore", this.#get(place, "namesBefore") + 1);
    const list = this.#get(place, "text") > 0 ? Word.freeWithText : Word.free;
    this.#set(place, "next", this.#words[list] as number);
    this.#memory.setWord(list, place);
  }

  #unlink(place: number): void {
    let before = this.#chainOf(this.#words[this.#at(place) + Entry.hash] as number);
    while (this.#words[before] !== place) before = this.#at(this.#words[before] as number) + Entry.next;
    this.#memory.setWord(before, this.#get(place, "next"));
  }

  #isUsedByOthers(place: number): boolean {
    const [own, bit] = this.#userBit(place);
    const first = this.#at(place) + Entry.users;
    for (let at = first; at < first + THREADS_MAX / 32; at++)
      if (((this.#words[at] as number) & (at === own ? ~bit : -1)) !== 0) return true;
    return false;
  }

  #isUsed(place: number): boolean {
    const [at, bit] = this.#userBit(place);
    return ((this.#words[at] as number) & bit) !== 0;
  }

  #setUsed(place: number, isUsed: boolean): void {
    const [at, bit] = this.#userBit(place);
    const users = this.#words[at] as number;
    this.#memory.setWord(at, isUsed ? users | bit : users & ~bit);
  }

  /** The word and the bit in it that say whether this thread uses the name. */
  #userBit(place: number): readonly [at: number, bit: number] {
    return [this.#at(place) + Entry.users + (this.#row >> 5), 1 << (this.#row & 31)];
  }

  #chainOf(hashStart: number): number {
    return Word.chains + ((hashStart >>> 0) % this.#layout.chains);
  }

  #get(place: number, field: EntryField): number {
    return this.#words[this.#at(place) + Entry[field]] as number;
  }

  #set(place: number, field: EntryField, value: number): void {
    this.#memory.setWord(this.#at(place) + Entry[field], value);
  }

  #at(place: number): number {
    return this.#layout.entriesAt + place * ENTRY_WORDS;
  }

  #all(fits: (place: number) => boolean): number[] {
    const all: number[] = [];
    for (let place = 1; place <= (this.#words[Word.used] as number); place++) if (fits(place)) all.push(place);
    return all;
  }

  #textOf(place: number): string {
    const at = this.#textAt(place);
    return this.#texts.toString("utf8", at, at + this.#get(place, "textBytes"));
  }

  /** Makes a text, the newest of all. */
  #setText(place: number, text: string): void {
    this.#set(place, "textBytes", this.#texts.write(text, this.#textAt(place)));
    this.#memory.setWord(Word.textsMade, this.textsMade + 1);
    this.#set(place, "made", this.textsMade);
  }

  #textAt(place: number): number {
    return (this.#get(place, "text") - 1) * TEXT_BYTES;
  }

  /** The cell at which a row begins, counted from the start of the memory; -1: the common one. */
  #rowStart(row: number): number {
    return this.#layout.rowsAt / 8 + (row + 1) * this.#layout.rowCells;
  }
}
