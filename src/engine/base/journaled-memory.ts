// Memory that threads share, in which a change of many numbers is kept whole or not at all: the old value of each is written down before it
// changes, until `commit`. If a thread ends before that, another calls `undo`. Who may write where is decided elsewhere, by locks
// (stores/memory/store-memory.ts).

import { InvariantError } from "./invariant.ts";

/** Most changes of a call: twice those that bring or forget all holds of a bucket (HOLDS_PER_BUCKET_MAX), the longest change. */
const ENTRIES_MAX = 524_288;
/** Numbers of an entry: the place of the change, and the old value. */
const ENTRY_NUMBERS = 2;
/** Bytes of a journal of so many entries: their count, then the entries. Only what was used takes memory. */
export function journalBytes(entriesMax = ENTRIES_MAX): number {
  return 8 * (1 + entriesMax * ENTRY_NUMBERS);
}

/**
 * One thread's view of a shared buffer: 64-bit numbers and signed 32-bit words, both counted from the buffer's start. The buffer is at most
 * 16 GiB, so that words can be counted. Reads go to `numbers` and `words`; writes that must be undone go through `setNumber` and `setWord`.
 */
export class JournaledMemory {
  readonly numbers: Float64Array;
  readonly words: Int32Array;
  readonly #journal: Float64Array;
  readonly #entriesMax: number;
  #entries = 0;

  /** `journalAt`: where the thread's journal begins, in bytes; a multiple of 8. `entriesMax`: most changes between two commits. */
  constructor(buffer: SharedArrayBuffer, journalAt: number, entriesMax = ENTRIES_MAX) {
    this.numbers = new Float64Array(buffer);
    this.words = new Int32Array(buffer);
    this.#journal = new Float64Array(buffer, journalAt, journalBytes(entriesMax) / 8);
    this.#entriesMax = entriesMax;
  }

  setNumber(at: number, value: number): void {
    const old = this.numbers[at] as number;
    if (old === value) return;
    this.#note(-1 - at, old);
    this.numbers[at] = value;
  }

  setWord(at: number, value: number): void {
    const old = this.words[at] as number;
    if (old === value) return;
    this.#note(at, old);
    this.words[at] = value;
  }

  /** Keeps what was written since the last commit. */
  commit(): void {
    if (this.#entries === 0) return;
    this.#entries = 0;
    this.#journal[0] = 0;
  }

  /** Takes back what this thread, or one that has ended and had the same journal, wrote since its last commit. */
  undo(): void {
    for (let left = this.#journal[0] as number; left > 0; left--) {
      const at = left * ENTRY_NUMBERS;
      const place = this.#journal[at - 1] as number;
      const old = this.#journal[at] as number;
      if (place < 0) this.numbers[-1 - place] = old;
      else this.words[place] = old;
    }
    this.#entries = 0;
    this.#journal[0] = 0;
  }

  /** The entry counts before the change is made: undoing a change that was not made changes nothing. */
  #note(place: number, old: number): void {
    const entry = this.#entries + 1;
    if (entry > this.#entriesMax) throw new InvariantError(`a call makes at most ${this.#entriesMax} changes`);
    const journal = this.#journal;
    journal[entry * ENTRY_NUMBERS - 1] = place;
    journal[entry * ENTRY_NUMBERS] = old;
    journal[0] = entry;
    this.#entries = entry;
  }
}

/** glibc gives out smaller blocks of memory that was used before, and clears it first, so all of a block takes memory at once. */
const RESERVED_MIN = 34_603_008;

/** A buffer of at least so many bytes, all 0. Only what is used takes memory. Throws RangeError if the system does not give so much. */
export function reserve(bytes: number): SharedArrayBuffer {
  return new SharedArrayBuffer(Math.max(bytes, RESERVED_MIN));
}

/** A memory of `bytes` bytes that no other thread has. */
export function ownMemory(bytes: number): JournaledMemory {
  return new JournaledMemory(reserve(bytes + journalBytes()), bytes);
}
