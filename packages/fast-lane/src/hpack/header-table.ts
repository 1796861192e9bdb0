// The table of header fields that both ends of a connection keep (RFC 7541, section 2.3): 61 fixed fields, then fields
// that header blocks added, newest first, within a bound of bytes.

import { HEADER_TABLE_DEFAULT } from "../protocol.ts";
import { type NameId, nameIdOf } from "./header-names.ts";

/** A field of the table. `name` and `value` are one-byte text. */
export interface HeaderField {
  readonly name: string;
  readonly value: string;
  readonly nameId: NameId;
  /** Bytes that the field counts for in the table. */
  readonly size: number;
}

/** Bytes that a field counts for besides its text (RFC 7541, section 4.1). */
export const FIELD_OVERHEAD_BYTES = 32;

// One line per name: the name, then the values that have an entry.
const STATIC_LINES = `:authority|
:method|GET|POST
:path|/|/index.html
:scheme|http|https
:status|200|204|206|304|400|404|500
accept-charset|
accept-encoding|gzip, deflate
accept-language|
accept-ranges|
accept|
access-control-allow-origin|
age|
allow|
authorization|
cache-control|
content-disposition|
content-encoding|
content-language|
content-length|
content-location|
content-range|
content-type|
cookie|
date|
etag|
expect|
expires|
from|
host|
if-match|
if-modified-since|
if-none-match|
if-range|
if-unmodified-since|
last-modified|
link|
location|
max-forwards|
proxy-authenticate|
proxy-authorization|
range|
referer|
refresh|
retry-after|
server|
set-cookie|
strict-transport-security|
transfer-encoding|
user-agent|
vary|
via|
www-authenticate|`;

/** A field with its size and the meaning of its name. */
export function headerField(name: string, value: string, nameId: NameId = nameIdOf(name)): HeaderField {
  return { name, value, nameId, size: name.length + value.length + FIELD_OVERHEAD_BYTES };
}

/** The fixed fields of every table; the protocol's index 1 is element 0. */
export const STATIC_FIELDS: readonly HeaderField[] = STATIC_LINES.split("\n").flatMap((line) => {
  const [name = "", ...values] = line.split("|");
  return values.map((value) => headerField(name, value));
});

/** What a field keeps of memory in addition to its size; measured with the shortest names. */
const FIELD_KEEPS_BYTES = 64;
// Of all tables, so that two tables of one generation have the same fields.
let generations = 0;

/** The fields that header blocks have added. */
export class DynamicTable {
  // Oldest first.
  readonly #fields: HeaderField[] = [];
  #size = 0;
  #sizeMax = HEADER_TABLE_DEFAULT;
  /** Changes when an index gets another meaning, to a number that no table had before. 0: no field was ever added. */
  generation = 0;

  get count(): number {
    return this.#fields.length;
  }

  /** Bytes of memory that the fields take, at most. */
  get keptBytes(): number {
    return this.#size + FIELD_KEEPS_BYTES * this.#fields.length;
  }

  /** The field at `index`, where 0 is the newest; undefined beyond the oldest. */
  at(index: number): HeaderField | undefined {
    return this.#fields[this.#fields.length - 1 - index];
  }

  /** Adds a field and drops old ones to make room. A field larger than the table empties it. */
  add(field: HeaderField): void {
    this.generation = ++generations;
    this.#shrinkTo(Math.max(0, this.#sizeMax - field.size));
    if (field.size > this.#sizeMax) return;
    this.#fields.push(field);
    this.#size += field.size;
  }

  /** Forgets all fields, when nothing more is decoded. */
  clear(): void {
    this.#fields.length = 0;
    this.#size = 0;
  }

  get sizeMax(): number {
    return this.#sizeMax;
  }

  /** Sets the most bytes that the fields may count for, at most HEADER_TABLE_DEFAULT. */
  resize(sizeMax: number): void {
    if (sizeMax === this.#sizeMax) return;
    this.#sizeMax = Math.min(sizeMax, HEADER_TABLE_DEFAULT);
    this.generation = ++generations;
    this.#shrinkTo(this.#sizeMax);
  }

  #shrinkTo(size: number): void {
    while (this.#size > size) this.#size -= this.#fields.shift()?.size ?? 0;
  }
}
