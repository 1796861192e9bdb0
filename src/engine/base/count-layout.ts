// Where the parts of the memory of counters begin (shared-counts.ts), and what its words mean.

import { invariant } from "./invariant.ts";
import { journalBytes, reserve } from "./journaled-memory.ts";

/** Counters of one place. */
export const PLACE_CELLS = 16;
/** Places of a row: above RULES_MAX. */
const PLACES = 262_144;
/** Most changes under one lock. */
const JOURNAL_ENTRIES_MAX = 131_072;
/** Most threads. */
export const THREADS_MAX = 128;
/** One place in so many has room for a text, of at most so many bytes. */
const PLACES_PER_TEXT = 8;
export const TEXT_BYTES = 1_024;
/** Names whose hashes begin alike are in one chain, so many for the mean. */
const NAMES_PER_CHAIN = 16;
/** The first words. Places and texts are numbered from 1, so that 0 is none. `living`: a bit for each thread. `starts`: how many threads each row has had. */
export const Word = {
  lock: 0,
  threads: 1,
  places: 2,
  used: 3,
  free: 4,
  freeWithText: 5,
  textsUsed: 6,
  textsMade: 7,
  living: 8,
  starts: 16,
  chains: 144,
} as const;

/**
 * Words of each place's entry. `made`: the number of the text among all that were ever made. `namesBefore`: how many names have given the
 * place up. `child`: the newest of the names that belong to it, which has the others by `sibling`.
 */
export const Entry = {
  hash: 0,
  namesBefore: 3,
  next: 4,
  kind: 5,
  mark: 6,
  heir: 7,
  parent: 8,
  text: 9,
  textBytes: 10,
  made: 11,
  child: 12,
  sibling: 13,
  users: 14,
} as const;
export type EntryField = Exclude<keyof typeof Entry, "hash" | "users">;
export const ENTRY_WORDS = 18;
export const HASH_WORDS = 3;

/** Where the parts of the memory begin: entries in words, the others in bytes. */
export function layoutOf(places: number, threads: number) {
  const chains = Math.ceil(places / NAMES_PER_CHAIN);
  const entriesAt = Word.chains + Math.ceil(chains / ENTRY_WORDS) * ENTRY_WORDS;
  const textsAt = 4 * (entriesAt + (places + 1) * ENTRY_WORDS);
  const texts = Math.ceil(places / PLACES_PER_TEXT);
  const journalAt = textsAt + texts * TEXT_BYTES;
  const journalEntries = Math.min(JOURNAL_ENTRIES_MAX, 16 * places);
  const rowsAt = journalAt + Math.ceil(journalBytes(journalEntries) / 64) * 64;
  const rowCells = places * PLACE_CELLS;
  return {
    chains,
    entriesAt,
    textsAt,
    texts,
    journalAt,
    journalEntries,
    rowsAt,
    rowCells,
    bytes: rowsAt + (threads + 1) * rowCells * 8,
  };
}

/** Reserves memory for the counters of so many threads. Only what is used takes memory. */
export function reserveCounts(threads: number, places = PLACES): SharedArrayBuffer {
  invariant(threads >= 1 && threads <= THREADS_MAX, `expected 1 to ${THREADS_MAX} threads, got ${threads}`);
  const buffer = reserve(layoutOf(places, threads).bytes);
  const words = new Int32Array(buffer);
  words[Word.threads] = threads;
  words[Word.places] = places;
  return buffer;
}

/** The word and the bit in it that say whether the thread of a row lives. */
export function livingBit(row: number): [word: number, bit: number] {
  return [Word.living + (row >> 5), 1 << (row & 31)];
}

/** The first cell of a place, counted from the start of a row. */
export function cellOf(place: number): number {
  return (place - 1) * PLACE_CELLS;
}

export function placeAt(cell: number): number {
  return cell / PLACE_CELLS + 1;
}
