// The limits at run time of a process: the newest change of each caller, ended and unset ones included. Calls find them
// without making anything, and most with few looks at memory, which is what callers who take turns wait for
// (bench/micro/runtime-limits.mjs). `digest` tells whether two tables, or a table and a store, are equal.

import type { LongWork } from "../../base/long-work.ts";
import type { Descriptor } from "../domain/request.ts";
import { isNewer, type KeptLimit, MARKS, type RuntimeLimit, readKey, readValue } from "./runtime-limit.ts";

/** Values that were read lately: callers on one plan have the same text. */
const READ_MAX = 1_024;
/**
 * Bits that mark known last values, so that most callers without a limit are passed after one look; a tenth are set
 * with 100,000.
 */
const BITS = 1 << 20;
/** Characters at the end of a value that choose its bit. */
const BIT_CHARS = 8;
/** Parts of a key with one entry. */
const ONE_ENTRY = 3;
/** A hidden value (rules/bucket-key.ts). */
export const HIDDEN = /^%#[\w-]{43}$/;

/** One caller's limit. */
export class RuntimeRow implements KeptLimit {
  /** The domain, then keys and values in turn; a key that can't be read is a single text. */
  readonly parts: readonly string[];
  readonly read: ReadValue;
  readonly atUs: number;
  readonly mark: number;
  /** The next with the same hash. */
  next: RuntimeRow | undefined;

  constructor(parts: readonly string[], { atUs, mark }: KeptLimit, read: ReadValue) {
    this.parts = parts;
    this.read = read;
    this.atUs = atUs;
    this.mark = mark;
    this.next = undefined;
  }

  get value(): string {
    return this.read.value;
  }

  /** Undefined if the value can't be read: then it does nothing. */
  get limit(): RuntimeLimit | undefined {
    return this.read.limit;
  }

  get key(): string {
    return this.parts.length === 1 ? (this.parts[0] as string) : JSON.stringify(this.parts);
  }
}

/** A value; callers on one plan, with one entry of the same key, share it. */
export interface ReadValue {
  /** Of these callers; empty if they have several entries. */
  readonly domain: string;
  readonly key: string;
  readonly value: string;
  readonly limit: RuntimeLimit | undefined;
  /** What limiter/runtime-limits.ts makes of it, until it forgets that. */
  applied: unknown;
}

/** Rows of one domain. */
export interface DomainRows {
  readonly hash: number;
  rows: number;
  /** How many have hidden values, by their first key. */
  readonly hidden: Map<string, number>;
}

export class RuntimeTable {
  /** By hash. */
  readonly #rows = new Map<number, RuntimeRow>();
  readonly #domains = new Map<string, DomainRows>();
  #read = new Map<string, ReadValue>();
  /** Empty until there is a row. */
  #lastValues = new Int32Array();
  /** By last value: what the only row with it says if that has one entry, else how many there are. */
  readonly #byLast = new Map<string, ReadValue | number>();
  /** Number of callers, those with ended and unset limits included. */
  size = 0;
  /** The sum of all marks. */
  digest = 0;
  /** Grows with every change. */
  changes = 0;
  /** The store's clock less this process's, in microseconds. */
  clockOffsetUs = 0;

  /** What `find` needs of a domain; undefined if it has no limits. */
  domain(name: string): DomainRows | undefined {
    return this.#domains.size === 0 ? undefined : this.#domains.get(name);
  }

  /** What is kept for the descriptor, without entries whose keys are in `skipped`. */
  find(domain: string, of: DomainRows, descriptor: Descriptor, skipped: ReadonlySet<string>): ReadValue | undefined {
    const { keys, values, entryCount } = descriptor;
    if (skipped.size > 0 || entryCount !== 1) return this.findRow(domain, of, descriptor, skipped)?.read;
    if (!this.#isLastValue(values[0] as string)) return undefined;
    const only = this.#byLast.get(values[0] as string);
    if (typeof only === "number") return this.findRow(domain, of, descriptor, skipped)?.read;
    return only?.key === keys[0] && only?.domain === domain ? only : undefined;
  }

  /** The descriptor's row. */
  findRow(domain: string, { hash }: DomainRows, descriptor: Descriptor, skipped: ReadonlySet<string>) {
    const { keys, values, entryCount } = descriptor;
    let last = entryCount - 1;
    while (last > 0 && skipped.size > 0 && skipped.has(keys[last] as string)) last--;
    if (!this.#isLastValue(values[last] ?? "")) return undefined;
    let found = hash;
    for (let i = 0; i < entryCount; i++)
      if (skipped.size === 0 || !skipped.has(keys[i] as string)) found = hashPart(found, values[i] as string);
    let row = this.#rows.get(found);
    while (row !== undefined && !isOf(row.parts, domain, descriptor, skipped)) row = row.next;
    return row;
  }

  /** False if no row has this last value. */
  #isLastValue(value: string): boolean {
    const bit = bitOf(value);
    return ((this.#lastValues[bit >>> 5] as number) & (1 << (bit & 31))) !== 0;
  }

  get(key: string): RuntimeRow | undefined {
    return this.#find(partsOf(key));
  }

  /** Keeps a limit unless the caller has an equally new or newer one. Returns the caller's row. */
  put(kept: KeptLimit): RuntimeRow {
    const parts = partsOf(kept.key);
    const known = this.#find(parts);
    if (known !== undefined && !isNewer(kept, known)) return known;
    const row = new RuntimeRow(parts, kept, this.#readValue(kept.value, parts));
    const hash = hashOf(parts);
    const first = this.#rows.get(hash);
    row.next = known === undefined ? first : without(first, known);
    // A hash that is there already keeps its place in `entries`.
    this.#rows.set(hash, row);
    if (known !== undefined) this.#count(known, -1);
    if (this.#lastValues.length === 0) this.#lastValues = new Int32Array(BITS / 32);
    const bit = bitOf(parts.at(-1) ?? "");
    this.#lastValues[bit >>> 5] = (this.#lastValues[bit >>> 5] as number) | (1 << (bit & 31));
    this.#count(row, 1);
    return row;
  }

  *putAll(limits: Iterable<KeptLimit>): LongWork<void> {
    for (const kept of limits) {
      this.put(kept);
      yield;
    }
  }

  delete(row: RuntimeRow): void {
    const hash = hashOf(row.parts);
    const rest = without(this.#rows.get(hash), row);
    if (rest === undefined) this.#rows.delete(hash);
    else this.#rows.set(hash, rest);
    this.#count(row, -1);
  }

  /** All, each with its hash, in no order; each once, whatever changes meanwhile. */
  *entries(): Generator<readonly [hash: number, row: RuntimeRow]> {
    for (const [hash, first] of this.#rows)
      for (let row: RuntimeRow | undefined = first; row !== undefined; row = row.next) yield [hash >>> 0, row];
  }

  #find(parts: readonly string[]): RuntimeRow | undefined {
    let row = this.#rows.get(hashOf(parts));
    while (row !== undefined && !(row.parts.length === parts.length && row.parts.every((part, i) => part === parts[i])))
      row = row.next;
    return row;
  }

  #count(row: RuntimeRow, by: 1 | -1): void {
    const { parts, mark } = row;
    const [name = ""] = parts;
    const last = parts.at(-1) ?? "";
    const others = this.#byLast.get(last) ?? 0;
    const count = (typeof others === "number" ? others : 1) + by;
    if (count === 0) this.#byLast.delete(last);
    else this.#byLast.set(last, others === 0 && parts.length === ONE_ENTRY ? row.read : count);
    const domain = this.#domains.get(name) ?? { hash: hashPart(0, name), rows: 0, hidden: new Map() };
    domain.rows += by;
    if (parts.some((part) => HIDDEN.test(part))) {
      const [, key = ""] = parts;
      const hidden = (domain.hidden.get(key) ?? 0) + by;
      if (hidden > 0) domain.hidden.set(key, hidden);
      else domain.hidden.delete(key);
    }
    if (domain.rows > 0) this.#domains.set(name, domain);
    else this.#domains.delete(name);
    this.size += by;
    this.changes++;
    this.digest = (this.digest + by * mark + MARKS) % MARKS;
  }

  #readValue(value: string, parts: readonly string[]): ReadValue {
    const [domain = "", key = ""] = parts.length === ONE_ENTRY ? parts : [];
    const text = JSON.stringify([domain, key, value]);
    const known = this.#read.get(text);
    if (known !== undefined) return known;
    if (this.#read.size >= READ_MAX) this.#read = new Map();
    const read = { domain, key, value, limit: readValue(value), applied: undefined };
    this.#read.set(text, read);
    return read;
  }
}

/** The chain that begins with `first`, without `row`. */
function without(first: RuntimeRow | undefined, row: RuntimeRow): RuntimeRow | undefined {
  if (first === row) return row.next;
  for (let each = first; each !== undefined; each = each.next) if (each.next === row) each.next = row.next;
  return first;
}

function partsOf(key: string): readonly string[] {
  const read = readKey(key);
  return read === undefined ? [key] : [read.domain, ...read.entries.flat()];
}

function isOf(
  parts: readonly string[],
  domain: string,
  { keys, values, entryCount }: Descriptor,
  skipped: ReadonlySet<string>,
): boolean {
  if (parts[0] !== domain) return false;
  let at = 1;
  for (let i = 0; i < entryCount; i++) {
    if (skipped.size > 0 && skipped.has(keys[i] as string)) continue;
    if (parts[at] !== keys[i] || parts[at + 1] !== values[i]) return false;
    at += 2;
  }
  return at === parts.length && at > 1;
}

/** The hash of domain and values. */
function hashOf(parts: readonly string[]): number {
  let hash = hashPart(0, parts[0] ?? "");
  for (let i = 2; i < parts.length; i += 2) hash = hashPart(hash, parts[i] as string);
  return hash;
}

/** FNV-1a, with a mark for the part's end. */
function hashPart(before: number, text: string): number {
  let hash = before ^ 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return Math.imul(hash ^ (hash >>> 15), 0x01000193);
}

function bitOf(value: string): number {
  let hash = value.length;
  for (let i = Math.max(0, hash - BIT_CHARS); i < value.length; i++)
    hash = Math.imul(hash ^ value.charCodeAt(i), 0x9e3779b1);
  return (hash ^ (hash >>> 12)) & (BITS - 1);
}
