// Encodes header blocks (RFC 7541). Fields whose values hardly change go into the table, all others stay out, so that
// after the first answers of a connection every block consists of indices that no longer change. The rest, mostly why a
// call failed, is plain text, not Huffman code.

import { HEADER_TABLE_DEFAULT } from "../protocol.ts";
import { DynamicTable, headerField, STATIC_FIELDS } from "./header-table.ts";

const BLOCK_BYTES_FIRST = 4_096;
const INTEGER_BYTES_MAX = 6;

const staticNames = new Map<string, number>();
const staticFields = new Map<string, number>();
for (const [i, { name, value }] of STATIC_FIELDS.entries()) {
  if (!staticNames.has(name)) staticNames.set(name, i + 1);
  staticFields.set(`${name}\0${value}`, i + 1);
}

/** Names whose fields go into the table. */
const STEADY_NAMES: ReadonlySet<string> = new Set([
  ":status",
  "content-type",
  "grpc-status",
  "grpc-encoding",
  "grpc-accept-encoding",
]);

/** Whether fields of this name go into the table. */
type IndexPolicy = (name: string) => boolean;

// The block that is being encoded, of any encoder.
let room = Buffer.allocUnsafe(BLOCK_BYTES_FIRST);

/** The encoder of one connection. Blocks must be sent in the order in which they were encoded. */
export class HpackEncoder {
  readonly #table = new DynamicTable();
  readonly #mayIndex: IndexPolicy;
  #at = 0;
  // The smallest of the table sizes that the peer has set since the last block: the next block must state it, and then
  // the last one.
  #smallestSize: number | undefined;

  constructor(mayIndex: IndexPolicy = (name) => STEADY_NAMES.has(name)) {
    this.#mayIndex = mayIndex;
  }

  /** True if the present block may be sent again as long as `generation` stays: encoding it has changed no table. */
  isRepeatable = true;

  /** Changes when an index gets another meaning; until then a repeatable block may be sent again. */
  get generation(): number {
    return this.#table.generation;
  }

  /** Applies the peer's SETTINGS_HEADER_TABLE_SIZE. */
  allowTableSize(bytes: number): void {
    const size = Math.min(bytes, HEADER_TABLE_DEFAULT);
    if (size === this.#table.sizeMax) return;
    this.#smallestSize = Math.min(this.#smallestSize ?? size, size);
    this.#table.resize(size);
  }

  /** Begins a block; it must end before another encoder begins one. */
  begin(): void {
    this.#at = 0;
    this.isRepeatable = this.#smallestSize === undefined;
    if (this.#smallestSize === undefined) return;
    this.#reserve(2 * INTEGER_BYTES_MAX);
    if (this.#smallestSize < this.#table.sizeMax) this.#integer(0x20, 0x1f, this.#smallestSize);
    this.#integer(0x20, 0x1f, this.#table.sizeMax);
    this.#smallestSize = undefined;
  }

  /** Adds a field. Name and value are one-byte text, which the caller has checked. */
  field(name: string, value: string): void {
    this.#reserve(name.length + value.length + 3 * INTEGER_BYTES_MAX);
    const whole = staticFields.get(`${name}\0${value}`) ?? this.#find(name, value);
    if (whole !== undefined) {
      this.#integer(0x80, 0x7f, whole);
      return;
    }
    const named = staticNames.get(name) ?? this.#find(name, undefined) ?? 0;
    const isIndexed = this.#mayIndex(name);
    if (isIndexed) this.#integer(0x40, 0x3f, named);
    else this.#integer(0x00, 0x0f, named);
    if (named === 0) this.#text(name);
    this.#text(value);
    if (!isIndexed) return;
    this.isRepeatable = false;
    this.#table.add(headerField(name, value));
  }

  /** The block so far; valid until the next `begin` of any encoder. */
  end(): Buffer {
    return room.subarray(0, this.#at);
  }

  #find(name: string, value: string | undefined): number | undefined {
    for (let i = 0; i < this.#table.count; i++) {
      const field = this.#table.at(i);
      if (field?.name === name && (value === undefined || field.value === value)) return STATIC_FIELDS.length + 1 + i;
    }
    return undefined;
  }

  #text(text: string): void {
    this.#integer(0x00, 0x7f, text.length);
    this.#at += room.write(text, this.#at, "latin1");
  }

  #integer(pattern: number, prefixMax: number, value: number): void {
    if (value < prefixMax) {
      room[this.#at++] = pattern | value;
      return;
    }
    room[this.#at++] = pattern | prefixMax;
    let rest = value - prefixMax;
    for (; rest >= 0x80; rest >>>= 7) room[this.#at++] = (rest & 0x7f) | 0x80;
    room[this.#at++] = rest;
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= room.length) return;
    const larger = Buffer.allocUnsafe(Math.max(2 * room.length, this.#at + bytes));
    larger.set(room.subarray(0, this.#at));
    room = larger;
  }
}
