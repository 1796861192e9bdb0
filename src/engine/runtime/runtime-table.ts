// The limits at run time of a process, in memory that its threads share: a hash table of records that are never changed. A record that is
// replaced stays in the heap until the heap is full; then what is in force is copied to the other half, and the halves change places. So
// readers need no lock: what they have found stays for as long as it takes to read it. Writers take turns by a lock, and a thread that ends
// while it writes leaves at most a record that nothing points to.

import { reserve } from "../base/reserved.ts";
import { freeLock, ownerOf, takeLock } from "../base/shared-lock.ts";
import type { Descriptor } from "../domain/request.ts";
import { hashOf, hashPart } from "./runtime-hash.ts";
import { type KeptLimit, keyText, type RuntimeKey, readKey, type StoreChange } from "./runtime-limit.ts";

/** Bytes of the heap for each limit that there may be: with keys of 40 bytes a record has some 200. */
const HEAP_BYTES_PER_LIMIT = 512;
/** Ended and unset ones are remembered too, up to as many again. */
const RECORDS_PER_LIMIT = 2;
const SLOTS_PER_RECORD = 2;
/** Free slots that one part skips. */
const PART_SLOTS = 4_096;

/** Places in the head, in words; the last three are numbers of 64 bits, counted as such. */
const HEAD = {
  lock: 0,
  half: 1,
  generation: 2,
  changes: 3,
  savedChanges: 4,
  clockOffset: 4,
  writtenVersion: 5,
  writtenUs: 6,
} as const;
const HEAD_BYTES = 128;
/** Places in the head of a half, in words: end of the heap, number of records in use, words of replaced records. */
const HALF = { end: 0, records: 1, replacedWords: 2 } as const;
const HALF_HEAD_WORDS = 4;
/** Places in a record, in words. `atUs` is a number of 64 bits, so records begin at even words. The key's bytes follow, then the value's. */
const RECORD = { hash: 0, keyBytes: 1, valueBytes: 2, atUs: 2 } as const;
const RECORD_WORDS = 6;

/** What threads are given of it. Can be sent in a message. */
interface SharedRuntimeTable {
  readonly buffer: SharedArrayBuffer;
  readonly limitsMax: number;
}

/** A new, empty table. Only what is used takes memory. Throws RangeError if the system does not give so much. */
export function newRuntimeTable(limitsMax: number): SharedRuntimeTable {
  return { buffer: reserve(HEAD_BYTES + 2 * halfWords(limitsMax) * 4), limitsMax };
}

function slotsOf(limitsMax: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, limitsMax) * RECORDS_PER_LIMIT * SLOTS_PER_RECORD));
}

function halfWords(limitsMax: number): number {
  return HALF_HEAD_WORDS + slotsOf(limitsMax) + (Math.max(1_024, limitsMax) * HEAP_BYTES_PER_LIMIT) / 4;
}

/** One thread's access. A place is where a record begins, in words; it is valid in the turn in which it was found. */
export class RuntimeTable {
  readonly shared: SharedRuntimeTable;
  readonly #owner: number;
  readonly #words: Int32Array;
  readonly #numbers: Float64Array;
  readonly #bytes: Buffer;
  readonly #slots: number;
  readonly #halfWords: number;
  #isLocked = false;

  /** `thread`: from 0; no two living threads may have the same. */
  constructor(shared: SharedRuntimeTable, thread: number) {
    this.shared = shared;
    this.#owner = thread + 1;
    this.#words = new Int32Array(shared.buffer);
    this.#numbers = new Float64Array(shared.buffer);
    this.#bytes = Buffer.from(shared.buffer);
    this.#slots = slotsOf(shared.limitsMax);
    this.#halfWords = halfWords(shared.limitsMax);
  }

  /** Grows with every change. */
  get changes(): number {
    return Atomics.load(this.#words, HEAD.changes);
  }

  /** Grows when places change. */
  get generation(): number {
    return Atomics.load(this.#words, HEAD.generation);
  }

  /** The store's clock less this process's, in microseconds. */
  get clockOffsetUs(): number {
    return this.#numbers[HEAD.clockOffset] as number;
  }

  set clockOffsetUs(us: number) {
    this.#numbers[HEAD.clockOffset] = us;
  }

  /** The newest change that this process has written and not yet read back; version 0 if there is none. */
  get written(): StoreChange {
    return this.exclusively(() => ({
      version: this.#numbers[HEAD.writtenVersion] as number,
      atUs: this.#numbers[HEAD.writtenUs] as number,
    }));
  }

  noteWritten({ version, atUs }: StoreChange): void {
    this.exclusively(() => {
      if (version > (this.#numbers[HEAD.writtenVersion] as number)) this.#setWritten(version, atUs);
    });
  }

  /** Nothing is waited for any more, unless something newer was written. */
  forgetWritten({ version }: StoreChange): void {
    this.exclusively(() => {
      if (this.#numbers[HEAD.writtenVersion] === version) this.#setWritten(0, 0);
    });
  }

  /** The value of `changes` up to which all is in the file. */
  get savedChanges(): number {
    return Atomics.load(this.#words, HEAD.savedChanges);
  }

  set savedChanges(changes: number) {
    Atomics.store(this.#words, HEAD.savedChanges, changes);
  }

  /** Number of limits, with ended and unset ones. */
  get size(): number {
    return Atomics.load(this.#words, this.#halfAt() + HALF.records);
  }

  /** The place of the descriptor's limit, without entries whose keys are in `skipped`; 0 if there is none. Allocates nothing. */
  find(domain: string, domainHash: number, descriptor: Descriptor, skipped: ReadonlySet<string>): number {
    let hash = domainHash;
    for (let i = 0; i < descriptor.entryCount; i++) {
      const key = descriptor.keys[i] as string;
      if (skipped.size > 0 && skipped.has(key)) continue;
      hash = hashPart(hashPart(hash, key), descriptor.values[i] as string);
    }
    const slotsAt = this.#halfAt() + HALF_HEAD_WORDS;
    for (let slot = hash & (this.#slots - 1); ; slot = (slot + 1) & (this.#slots - 1)) {
      const place = Atomics.load(this.#words, slotsAt + slot);
      if (place === 0) return 0;
      if (this.#words[place] === hash && this.#isOf(place, domain, descriptor, skipped)) return place;
    }
  }

  kept(place: number): KeptLimit {
    return { key: keyText(this.keyAt(place)), value: this.valueAt(place), atUs: this.atUs(place) };
  }

  valueAt(place: number): string {
    const from = (place + RECORD_WORDS) * 4 + (this.#words[place + RECORD.keyBytes] as number);
    return this.#bytes.toString("utf8", from, from + (this.#words[place + RECORD.valueBytes] as number));
  }

  atUs(place: number): number {
    return this.#numbers[place / 2 + RECORD.atUs] as number;
  }

  /** What is kept of the key; undefined if nothing is. */
  get(key: RuntimeKey): KeptLimit | undefined {
    const place = this.#placeOf(key);
    return place === 0 ? undefined : this.kept(place);
  }

  /** Keeps a limit unless a newer one is there, or the same. Returns whether it was kept, or why it can't be. */
  put({ key: text, value, atUs }: KeptLimit): boolean | "full" | "unreadable" {
    const key = readKey(text);
    if (key === undefined) return "unreadable";
    const hash = hashOf(key);
    return this.exclusively(() => {
      const known = this.#words[this.#slotOf(this.#halfAt(), hash, text)] as number;
      if (known !== 0 && this.atUs(known) >= atUs) return false;
      if (known === 0 && this.size >= this.shared.limitsMax * RECORDS_PER_LIMIT) return "full";
      return this.#append(key, text, hash, value, atUs);
    });
  }

  /** Whether so many records as large as this limit's would find room. */
  hasRoomFor(count: number, key: RuntimeKey, value: string): boolean {
    const words = count * recordWords(keyBytesOf(key) + Buffer.byteLength(value));
    return this.exclusively(() => this.#makeRoom(words));
  }

  /** The places of all records from `from` on, a place or 0, in the order of their changes. Those that were replaced are not current. */
  *places(from = 0): Generator<number> {
    const half = this.#halfAt();
    const first = half + HALF_HEAD_WORDS + this.#slots;
    const end = Atomics.load(this.#words, half + HALF.end);
    for (let place = Math.max(first, from); place < end; place = this.#after(place)) yield place;
  }

  /** The places of all records of the key, in the order of their changes. */
  *placesOf(key: RuntimeKey): Generator<number> {
    const hash = hashOf(key);
    const text = keyText(key);
    for (const place of this.places())
      if (this.#words[place] === hash && keyText(this.keyAt(place)) === text) yield place;
  }

  /** Whether the record at a place is what is kept of its key now. */
  isCurrent(place: number): boolean {
    const slotsAt = this.#halfAt() + HALF_HEAD_WORDS;
    for (let slot = (this.#words[place] as number) & (this.#slots - 1); ; slot = (slot + 1) & (this.#slots - 1)) {
      const found = Atomics.load(this.#words, slotsAt + slot);
      if (found === place || found === 0) return found === place;
    }
  }

  /**
   * Places of current records, in an order that all processes with the same limits and the same bound have: by parts, from slot 0 or `next` of
   * the part before on. `next` is undefined after the last one. Which slots are taken does not depend on the order of changes, so a part ends
   * where one is free: with it end the records that may lie in each other's slots.
   */
  part(from: number): { readonly places: readonly number[]; readonly next: number | undefined } {
    const slotsAt = this.#halfAt() + HALF_HEAD_WORDS;
    const placeAt = (slot: number) => Atomics.load(this.#words, slotsAt + (slot & (this.#slots - 1)));
    const places: number[] = [];
    let slot = from;
    // Those that begin in the last slots and go on in the first ones belong to the last part.
    if (from === 0 && placeAt(-1) !== 0) while (placeAt(slot) !== 0 && slot < this.#slots) slot++;
    for (const end = Math.min(this.#slots, slot + PART_SLOTS); slot < end && placeAt(slot) === 0; ) slot++;
    for (; slot < this.#slots && placeAt(slot) !== 0; slot++) places.push(placeAt(slot));
    if (slot < this.#slots) return { places, next: slot };
    if (places.length > 0)
      for (let first = 0; first < from && placeAt(first) !== 0; first++) places.push(placeAt(first));
    return { places, next: undefined };
  }

  /** The place of the next record to come. */
  get endPlace(): number {
    const half = this.#halfAt();
    return Math.max(half + HALF_HEAD_WORDS + this.#slots, Atomics.load(this.#words, half + HALF.end));
  }

  /** Drops what `isDropped` says, by copying the rest. */
  compact(isDropped: (place: number) => boolean): void {
    this.exclusively(() => this.#compact(isDropped));
  }

  /** Frees the lock of the thread, which has ended. */
  endThread(): void {
    if (ownerOf(this.#words, HEAD.lock) === this.#owner) freeLock(this.#words, HEAD.lock);
  }

  keyAt(place: number): RuntimeKey {
    const parts: string[] = [];
    const from = (place + RECORD_WORDS) * 4;
    const end = from + (this.#words[place + RECORD.keyBytes] as number);
    for (let at = from; at < end; ) {
      const length = this.#bytes.readUInt16LE(at);
      parts.push(this.#bytes.latin1Slice(at + 2, at + 2 + length));
      at += 2 + length;
    }
    const [domain = "", ...rest] = parts;
    const entries = rest.flatMap((key, i) => (i % 2 === 0 ? [[key, rest[i + 1] ?? ""] as const] : []));
    return { domain, entries };
  }

  /** Runs `write` while no other thread writes. */
  exclusively<T>(write: () => T): T {
    if (this.#isLocked) return write();
    takeLock(this.#words, HEAD.lock, this.#owner);
    this.#isLocked = true;
    try {
      return write();
    } finally {
      this.#isLocked = false;
      freeLock(this.#words, HEAD.lock);
    }
  }

  #setWritten(version: number, atUs: number): void {
    this.#numbers[HEAD.writtenVersion] = version;
    this.#numbers[HEAD.writtenUs] = atUs;
  }

  #halfAt(half = Atomics.load(this.#words, HEAD.half)): number {
    return HEAD_BYTES / 4 + half * this.#halfWords;
  }

  #after(place: number): number {
    const bytes = (this.#words[place + RECORD.keyBytes] as number) + (this.#words[place + RECORD.valueBytes] as number);
    return place + recordWords(bytes);
  }

  #placeOf(key: RuntimeKey): number {
    return Atomics.load(this.#words, this.#slotOf(this.#halfAt(), hashOf(key), keyText(key)));
  }

  /** Where the slot of the key lies: that which points to its record, or an empty one. */
  #slotOf(half: number, hash: number, key: string): number {
    const slotsAt = half + HALF_HEAD_WORDS;
    for (let slot = hash & (this.#slots - 1); ; slot = (slot + 1) & (this.#slots - 1)) {
      const place = Atomics.load(this.#words, slotsAt + slot);
      if (place === 0 || (this.#words[place] === hash && keyText(this.keyAt(place)) === key)) return slotsAt + slot;
    }
  }

  #isOf(place: number, domain: string, descriptor: Descriptor, skipped: ReadonlySet<string>): boolean {
    const from = (place + RECORD_WORDS) * 4;
    let at = this.#afterPart(from, domain);
    for (let i = 0; i < descriptor.entryCount && at > 0; i++) {
      const key = descriptor.keys[i] as string;
      if (skipped.size > 0 && skipped.has(key)) continue;
      at = this.#afterPart(at, key);
      if (at > 0) at = this.#afterPart(at, descriptor.values[i] as string);
    }
    return at === from + (this.#words[place + RECORD.keyBytes] as number);
  }

  /** Where the part ends that begins at this byte, if it is this text; else 0. */
  #afterPart(at: number, text: string): number {
    const bytes = this.#bytes;
    const { length } = text;
    if ((bytes[at] as number) + ((bytes[at + 1] as number) << 8) !== length) return 0;
    for (let i = 0; i < length; i++) if (bytes[at + 2 + i] !== text.charCodeAt(i)) return 0;
    return at + 2 + length;
  }

  #append(key: RuntimeKey, text: string, hash: number, value: string, atUs: number): true | "full" {
    const parts = [key.domain, ...key.entries.flat()];
    const keyBytes = keyBytesOf(key);
    const valueBytes = Buffer.byteLength(value);
    const words = recordWords(keyBytes + valueBytes);
    if (!this.#makeRoom(words)) return "full";
    const half = this.#halfAt();
    const place = this.endPlace;
    this.#words[place + RECORD.hash] = hash;
    this.#words[place + RECORD.keyBytes] = keyBytes;
    this.#words[place + RECORD.valueBytes] = valueBytes;
    this.#numbers[place / 2 + RECORD.atUs] = atUs;
    let at = (place + RECORD_WORDS) * 4;
    for (const part of parts) {
      at = this.#bytes.writeUInt16LE(part.length, at);
      at += this.#bytes.write(part, at, "latin1");
    }
    this.#bytes.write(value, at, "utf8");
    Atomics.store(this.#words, half + HALF.end, place + words);
    const slot = this.#slotOf(half, hash, text);
    const replaced = this.#words[slot] as number;
    if (replaced === 0) Atomics.add(this.#words, half + HALF.records, 1);
    else Atomics.add(this.#words, half + HALF.replacedWords, this.#after(replaced) - replaced);
    Atomics.store(this.#words, slot, place);
    Atomics.add(this.#words, HEAD.changes, 1);
    return true;
  }

  /** Frees what was replaced if need be. A full heap without any is not copied for each limit that comes. */
  #makeRoom(words: number): boolean {
    const isWorthIt = Atomics.load(this.#words, this.#halfAt() + HALF.replacedWords) > 0;
    if (!this.#hasRoom(words) && isWorthIt) this.#compact(() => false);
    return this.#hasRoom(words);
  }

  #hasRoom(words: number): boolean {
    return this.endPlace + words <= this.#halfAt() + this.#halfWords;
  }

  #compact(isDropped: (place: number) => boolean): void {
    const other = 1 - Atomics.load(this.#words, HEAD.half);
    const half = this.#halfAt(other);
    const heapAt = half + HALF_HEAD_WORDS + this.#slots;
    this.#words.fill(0, half, heapAt);
    let end = heapAt;
    let records = 0;
    for (const place of this.places()) {
      if (!this.isCurrent(place) || isDropped(place)) continue;
      const after = this.#after(place);
      this.#words.copyWithin(end, place, after);
      // Their keys differ, so the first empty slot is theirs.
      let slot = (this.#words[end] as number) & (this.#slots - 1);
      while (this.#words[half + HALF_HEAD_WORDS + slot] !== 0) slot = (slot + 1) & (this.#slots - 1);
      this.#words[half + HALF_HEAD_WORDS + slot] = end;
      end += after - place;
      records++;
    }
    this.#words[half + HALF.end] = end;
    this.#words[half + HALF.records] = records;
    Atomics.store(this.#words, HEAD.half, other);
    Atomics.add(this.#words, HEAD.generation, 1);
    // Other threads look for another generation when something has changed.
    Atomics.add(this.#words, HEAD.changes, 1);
  }
}

/** Words of a record, an even number. */
function recordWords(bytes: number): number {
  const words = RECORD_WORDS + Math.ceil(bytes / 4);
  return words + (words & 1);
}

/** Each part has its length before it. */
function keyBytesOf({ domain, entries }: RuntimeKey): number {
  return entries.reduce((sum, [key, value]) => sum + 4 + key.length + value.length, 2 + domain.length);
}
