// Decodes header blocks (RFC 7541). There is one decoder per connection, for its table; every block must pass through
// it, in order.

import { ConnectionError, ErrorCode, HEADER_TABLE_DEFAULT } from "../protocol.ts";
import type { HeaderList } from "./header-list.ts";
import { nameIdOf } from "./header-names.ts";
import { DynamicTable, type HeaderField, headerField, STATIC_FIELDS } from "./header-table.ts";
import { decodeHuffman, huffmanTextMax } from "./huffman.ts";

/** A longer integer is larger than anything that is accepted here. */
const INTEGER_BYTES_MAX = 5;
/** Longer literals are not remembered. */
const REMEMBERED_BYTES_MAX = 96;
const REMEMBERED_NAMES = 64;

/** A literal value, as sent and as text. */
interface RememberedValue {
  bytes: Buffer;
  length: number;
  text: string;
}

/** The last literal value of each name that has an index: most values come again, on other connections, too. */
export type RememberedValues = (RememberedValue | undefined)[];

export class HpackDecoder {
  readonly table = new DynamicTable();
  readonly #listBytesMax: number;
  readonly #scratch: Buffer;
  readonly #remembered: RememberedValues;
  #block: Buffer = EMPTY;
  #at = 0;
  #end = 0;

  /**
   * The fields of a block may have `listBytesMax` bytes, as they count for SETTINGS_MAX_HEADER_LIST_SIZE. `scratch`
   * holds text while it is decoded and is free afterwards. All decoders may share it, and `remembered`.
   */
  constructor(listBytesMax: number, scratch: Buffer, remembered: RememberedValues = []) {
    this.#listBytesMax = listBytesMax;
    this.#scratch = scratch;
    this.#remembered = remembered;
  }

  /**
   * Decodes a whole block into `list`, which it clears first. After a ConnectionError the table can't be used any more.
   */
  decode(block: Buffer, start: number, end: number, list: HeaderList): void {
    list.clear();
    this.#block = block;
    this.#at = start;
    this.#end = end;
    let mayResize = true;
    while (this.#at < end) {
      const first = block[this.#at] as number;
      if (first >= 0x80) {
        const field = this.#fieldAt(this.#integer(0x7f));
        list.add(field.name, field.value, field.nameId);
      } else if (first >= 0x40) {
        this.#readIndexedLiteral(list);
      } else if (first >= 0x20) {
        if (!mayResize) throw compressionError("the size of the table changes inside a header block");
        this.#resizeTable(list);
        continue;
      } else {
        this.#readLiteral(list);
      }
      mayResize = false;
      if (list.size > this.#listBytesMax) {
        const text = `header fields of more than ${this.#listBytesMax} bytes`;
        throw new ConnectionError(ErrorCode.enhanceYourCalm, text, "headers_too_large");
      }
    }
    this.#block = EMPTY;
  }

  #readIndexedLiteral(list: HeaderList): void {
    const index = this.#integer(0x3f);
    const named = index === 0 ? undefined : this.#fieldAt(index);
    const name = named === undefined ? this.#text() : named.name;
    const nameId = named === undefined ? nameIdOf(name) : named.nameId;
    const value = this.#text();
    list.isRepeatable = false;
    list.add(name, value, nameId);
    this.table.add(headerField(name, value, nameId));
  }

  // Handles literals without indexing and never indexed alike: the difference matters only to proxies that encode
  // fields again.
  #readLiteral(list: HeaderList): void {
    const index = this.#integer(0x0f);
    if (index === 0) {
      const name = this.#text();
      list.add(name, this.#text(), nameIdOf(name));
      return;
    }
    const { name, nameId } = this.#fieldAt(index);
    list.add(name, index < REMEMBERED_NAMES ? this.#valueAfter(index) : this.#text(), nameId);
  }

  #resizeTable(list: HeaderList): void {
    const size = this.#integer(0x1f);
    if (size > HEADER_TABLE_DEFAULT) throw compressionError("a larger table than was agreed on");
    list.isRepeatable = false;
    this.table.resize(size);
  }

  #fieldAt(index: number): HeaderField {
    const field =
      index <= STATIC_FIELDS.length ? STATIC_FIELDS[index - 1] : this.table.at(index - 1 - STATIC_FIELDS.length);
    if (field === undefined) throw compressionError(`no header field has index ${index}`);
    return field;
  }

  #integer(prefixMax: number): number {
    let value = (this.#block[this.#at++] as number) & prefixMax;
    if (value < prefixMax) return value;
    let unit = 1;
    for (let i = 0; i < INTEGER_BYTES_MAX; i++) {
      if (this.#at >= this.#end) throw compressionError("a header block that ends within a number");
      const byte = this.#block[this.#at++] as number;
      value += (byte & 0x7f) * unit;
      if (byte < 0x80) return value;
      unit *= 128;
    }
    throw compressionError("a number in a header block that is too large");
  }

  #text(): string {
    if (this.#at >= this.#end) throw compressionError("a header block that ends within a field");
    const isHuffman = (this.#block[this.#at] as number) >= 0x80;
    const length = this.#integer(0x7f);
    const start = this.#at;
    if (length > this.#end - start) throw compressionError("a header block that ends within text");
    this.#at = start + length;
    if (!isHuffman) return this.#block.latin1Slice(start, start + length);
    if (huffmanTextMax(length) > this.#scratch.length) throw compressionError("text of a header that is too long");
    const decoded = decodeHuffman(this.#block, start, start + length, this.#scratch);
    if (decoded < 0) throw compressionError("text that is not in Huffman code as it says");
    return this.#scratch.latin1Slice(0, decoded);
  }

  // Paths, lengths and the like come again and again as literals; to compare their bytes is cheaper than to decode
  // them.
  #valueAfter(index: number): string {
    const start = this.#at;
    const known = this.#remembered[index];
    if (known !== undefined && start + known.length <= this.#end && holds(known, this.#block, start)) {
      this.#at = start + known.length;
      return known.text;
    }
    const text = this.#text();
    const length = this.#at - start;
    if (length <= REMEMBERED_BYTES_MAX) {
      const slot = known ?? { bytes: Buffer.allocUnsafe(REMEMBERED_BYTES_MAX), length: 0, text: "" };
      slot.bytes.set(this.#block.subarray(start, this.#at));
      slot.length = length;
      slot.text = text;
      this.#remembered[index] = slot;
    }
    return text;
  }
}

const EMPTY = Buffer.alloc(0);

// The bytes begin with their own length, so equal bytes mean equal text whatever follows them.
function holds(known: RememberedValue, block: Buffer, start: number): boolean {
  const { bytes, length } = known;
  for (let i = 0; i < length; i++) if (bytes[i] !== block[start + i]) return false;
  return true;
}

function compressionError(message: string): ConnectionError {
  return new ConnectionError(ErrorCode.compressionError, message);
}
