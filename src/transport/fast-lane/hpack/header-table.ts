// The table of header fields that a connection's two ends build up alike (RFC 7541, section 2.3): 61 fields that never
// change, then those added on the way, newest first, within a bound of bytes.

import { HEADER_TABLE_DEFAULT } from "../protocol.ts";
import { type NameId, nameIdOf } from "./header-names.ts";

/** A field of the table. `name` and `value` are one-byte text. */
export interface HeaderField {
  readonly name: string;
  readonly value: string;
  readonly nameId: NameId;
  /** Bytes that the field counts for. */
  readonly size: number;
}

/** What a field counts for beyond its text. */
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

/** A field with its size and meaning worked out. */
export function headerField(name: string, value: string, nameId: NameId = nameIdOf(name)): HeaderField {
  return { name, value, nameId, size: name.length + value.length + FIELD_OVERHEAD_BYTES };
}

/** The fields that every table begins with; index 1 of the protocol is element 0. */
export const STATIC_FIELDS: readonly HeaderField[] = STATIC_LINES.split("\n").flatMap((line) => {
  const [name = "", ...values] = line.split("|");
  return values.map((value) => headerField(name, value));
});

/** The part of a table that changes. */
export class DynamicTable {
  // A ring: `#newest` is where the last field was put.
  #ring: (HeaderField | undefined)[] = new Array(HEADER_TABLE_DEFAULT / FIELD_OVERHEAD_BYTES);
  #newest = 0;
  #size = 0;
  #sizeMax = HEADER_TABLE_DEFAULT;
  count = 0;
  /** Moves whenever an index comes to mean something else. */
  generation = 0;

  /** The field at `index`, 0 being the newest; undefined beyond the oldest. */
  at(index: number): HeaderField | undefined {
    if (index >= this.count) return undefined;
    const slot = this.#newest - index;
    return this.#ring[slot < 0 ? slot + this.#ring.length : slot];
  }

  /** Adds a field and drops old ones to make room; one larger than the table empties it. */
  add(field: HeaderField): void {
    this.generation++;
    this.#shrinkTo(Math.max(0, this.#sizeMax - field.size));
    if (field.size > this.#sizeMax) return;
    this.#newest = this.#newest + 1 === this.#ring.length ? 0 : this.#newest + 1;
    this.#ring[this.#newest] = field;
    this.#size += field.size;
    this.count++;
  }

  get sizeMax(): number {
    return this.#sizeMax;
  }

  /** Sets how many bytes the fields may count for, at most HEADER_TABLE_DEFAULT. */
  resize(sizeMax: number): void {
    if (sizeMax === this.#sizeMax) return;
    this.#sizeMax = Math.min(sizeMax, HEADER_TABLE_DEFAULT);
    this.generation++;
    this.#shrinkTo(this.#sizeMax);
  }

  #shrinkTo(size: number): void {
    while (this.#size > size) {
      const slot = this.#newest - this.count + 1;
      const oldest = slot < 0 ? slot + this.#ring.length : slot;
      this.#size -= this.#ring[oldest]?.size ?? 0;
      this.#ring[oldest] = undefined;
      this.count--;
    }
  }
}
