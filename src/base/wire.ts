// Reads and writes the protobuf wire format, one value at a time, without allocating anything but text. Knows no
// messages: codec.ts does. Every error is a RequestError that names the position of the byte.

import { RequestError } from "./errors.ts";

/** Wire types: the low three bits of a tag. Groups (3 and 4), which proto3 does not have, are refused. */
export const WireType = { varint: 0, fixed64: 1, bytes: 2, startGroup: 3, endGroup: 4, fixed32: 5 } as const;

/** Most groups inside each other. proto3 has none, but parsers skip unknown ones. */
const GROUPS_MAX = 100;

const WIRE_TYPE_BITS = 3;
const VARINT_BYTES_MAX = 10;

/** A cursor over one message at a time. */
export class WireReader {
  #bytes: Buffer = Buffer.alloc(0);
  /** Index of the next byte. */
  position = 0;
  /** Index where the current message ends: the buffer's end, or less inside an embedded message. */
  end = 0;
  /** Upper 32 bits of the last varint, unsigned. */
  high = 0;
  readonly #short = new TextCache();

  /** Moves to the first byte of `message`, which is kept until `close`. */
  open(message: Buffer): void {
    this.#bytes = message;
    this.position = 0;
    this.end = message.length;
  }

  /** Lets go of the message. */
  close(): void {
    this.open(EMPTY);
  }

  /** Reads a tag: field number x 8 + wire type, at most 2^32 - 1. */
  readTag(): number {
    const start = this.position;
    const byte = this.position < this.end ? (this.#bytes[this.position] as number) : 0x80;
    if (byte >= 1 << WIRE_TYPE_BITS && byte < 0x80) {
      this.position++;
      return byte;
    }
    const tag = this.readVarint();
    if (this.high !== 0 || tag >>> WIRE_TYPE_BITS === 0) throw malformed("a field number from 1 to 536870911", start);
    return tag;
  }

  /** Reads a varint. Returns its low 32 bits, unsigned, and sets `high` to the upper ones. */
  readVarint(): number {
    const start = this.position;
    let low = 0;
    let high = 0;
    for (let i = 0; i < VARINT_BYTES_MAX; i++) {
      if (this.position >= this.end) throw malformed("the rest of a number", this.end);
      const byte = this.#bytes[this.position++] as number;
      const bits = byte & 0x7f;
      if (i < 4) {
        low |= bits << (7 * i);
      } else if (i === 4) {
        low |= bits << 28;
        high = bits >>> 4;
      } else {
        high |= bits << (7 * i - 32);
      }
      if (byte < 0x80) {
        // The tenth byte may only hold bit 63.
        if (i === VARINT_BYTES_MAX - 1 && byte > 1) break;
        this.high = high >>> 0;
        return low >>> 0;
      }
    }
    throw malformed("a number of at most 64 bits", start);
  }

  /** Reads the length of the text or embedded message that follows; returns the index where it ends. */
  readEnd(): number {
    const start = this.position;
    const length = this.readVarint();
    if (this.high !== 0 || length > this.end - this.position) {
      throw malformed(`a length of at most ${this.end - this.position} bytes`, start);
    }
    return this.position + length;
  }

  /** Reads the bytes up to `end` as one-byte text; any bytes are allowed. */
  readText(end: number): string {
    const start = this.position;
    if (start === end) return "";
    this.position = end;
    return end - start <= SHORT_TEXT_BYTES_MAX
      ? this.#short.read(this.#bytes, start, end)
      : this.#bytes.latin1Slice(start, end);
  }

  /** Skips the value of the field whose tag was just read. */
  skip(tag: number, groups = 0): void {
    switch (tag & 7) {
      case WireType.varint:
        this.readVarint();
        return;
      case WireType.fixed64:
        this.#skipBytes(8);
        return;
      case WireType.bytes:
        this.position = this.readEnd();
        return;
      case WireType.fixed32:
        this.#skipBytes(4);
        return;
      case WireType.startGroup:
        this.#skipGroup(tag + 1, groups + 1);
        return;
      default:
        throw malformed("a valid wire type", this.position);
    }
  }

  #skipGroup(endTag: number, groups: number): void {
    if (groups > GROUPS_MAX) throw malformed(`at most ${GROUPS_MAX} nested groups`, this.position);
    for (let tag = this.readTag(); tag !== endTag; tag = this.readTag()) this.skip(tag, groups);
  }

  #skipBytes(count: number): void {
    if (count > this.end - this.position) throw malformed(`${count} more bytes`, this.end);
    this.position += count;
  }
}

const EMPTY = Buffer.alloc(0);

/** The error for a message that lacks what was expected at byte `at`. */
export function malformed(expected: string, at: number): RequestError {
  return new RequestError("REQUEST_MALFORMED", `expected ${expected} at byte ${at} of the message`);
}

/** Text up to this length is cached; making a string of longer text is quicker than comparing it. */
export const SHORT_TEXT_BYTES_MAX = 32;
/** A power of two. */
const SLOTS = 2_048;

/**
 * Caches short texts by their bytes, so that frequent keys, domains and values need no new string on every call:
 * comparing a dozen bytes costs less than making a string (bench/micro/codec.mjs), and leaves no garbage. It is
 * direct-mapped: a new text replaces the one in its slot, so no sender can make the cache slow or large.
 */
export class TextCache {
  readonly #texts: string[] = new Array<string>(SLOTS).fill("");
  // A copy of each text's bytes, because reading these is quicker than reading the chars of the string.
  readonly #bytes = new Uint8Array(SLOTS * SHORT_TEXT_BYTES_MAX);

  /** The bytes from `start` up to `end`, 1 to SHORT_TEXT_BYTES_MAX of them, as one-byte text. */
  read(bytes: Buffer, start: number, end: number): string {
    const length = end - start;
    let hash = length;
    for (let i = start; i < end; i++) hash = Math.imul(hash, 31) + (bytes[i] as number);
    const slot = (hash ^ (hash >>> 11)) & (SLOTS - 1);
    const known = this.#texts[slot] as string;
    return known.length === length && this.#holds(slot, bytes, start, length)
      ? known
      : this.#learn(slot, bytes, start, end);
  }

  #holds(slot: number, bytes: Buffer, start: number, length: number): boolean {
    const own = this.#bytes;
    const at = slot * SHORT_TEXT_BYTES_MAX;
    for (let i = 0; i < length; i++) if (own[at + i] !== bytes[start + i]) return false;
    return true;
  }

  #learn(slot: number, bytes: Buffer, start: number, end: number): string {
    const own = this.#bytes;
    const at = slot * SHORT_TEXT_BYTES_MAX;
    for (let i = start; i < end; i++) own[at + i - start] = bytes[i] as number;
    const text = bytes.latin1Slice(start, end);
    this.#texts[slot] = text;
    return text;
  }
}

// Answers are a few hundred bytes; metadata may make one longer.
const INITIAL_BYTES = 1_024;
/** Room for a tag (one byte here) and a varint below 2^53 (at most eight bytes). */
const SCALAR_FIELD_BYTES_MAX = 16;
/** One UTF-16 code unit becomes at most three bytes. */
const BYTES_PER_CODE_UNIT_MAX = 3;
/** Longer text is written by Buffer.write; shorter text is quicker char by char (bench/micro/codec.mjs). */
const LOOP_CHARS_MAX = 64;

/** A byte buffer with a position. Field numbers must be 1 to 15, so that every tag is one byte. */
export class WireWriter {
  #bytes = Buffer.allocUnsafeSlow(INITIAL_BYTES);
  #position = 0;

  /** Empties the buffer; earlier views become invalid. */
  clear(): void {
    this.#position = 0;
  }

  /** A view of everything written since `clear`, valid until the next write. */
  view(): Uint8Array {
    return this.#bytes.subarray(0, this.#position);
  }

  /** A varint field. `value` is whole, 0 to 2^53 - 1. */
  writeVarintField(field: number, value: number): void {
    this.#reserve(SCALAR_FIELD_BYTES_MAX);
    this.#bytes[this.#position++] = field << 3;
    this.#writeVarint(value);
  }

  /** A double field. */
  writeDoubleField(field: number, value: number): void {
    this.#reserve(SCALAR_FIELD_BYTES_MAX);
    this.#bytes[this.#position++] = (field << 3) | 1;
    this.#position = this.#bytes.writeDoubleLE(value, this.#position);
  }

  /** A string field in UTF-8; an unpaired surrogate becomes U+FFFD. */
  writeTextField(field: number, text: string): void {
    const length = text.length;
    this.#reserve(SCALAR_FIELD_BYTES_MAX + length * BYTES_PER_CODE_UNIT_MAX);
    this.#bytes[this.#position++] = (field << 3) | 2;
    if (length <= LOOP_CHARS_MAX && this.#writeShortAscii(text)) return;
    const lengthAt = this.#position;
    // The length comes before the text but is known only after it: the text is written after the widest possible
    // length, then moved.
    const textAt = lengthAt + varintBytes(length * BYTES_PER_CODE_UNIT_MAX);
    const bytes = this.#bytes.write(text, textAt, "utf8");
    this.#writeVarint(bytes);
    if (this.#position !== textAt) this.#bytes.copyWithin(this.#position, textAt, textAt + bytes);
    this.#position += bytes;
  }

  /** Opens an embedded message. Pass the result to `closeMessage` after its fields. */
  openMessage(field: number): number {
    this.#reserve(SCALAR_FIELD_BYTES_MAX);
    this.#bytes[this.#position++] = (field << 3) | 2;
    return this.#position++;
  }

  /**
   * Closes the message that was opened last. One byte is reserved for its length; a longer length moves the message.
   */
  closeMessage(openedAt: number): void {
    const start = openedAt + 1;
    const length = this.#position - start;
    if (length < 0x80) {
      this.#bytes[openedAt] = length;
      return;
    }
    this.#reserve(SCALAR_FIELD_BYTES_MAX);
    const moved = openedAt + varintBytes(length);
    this.#bytes.copyWithin(moved, start, start + length);
    this.#position = openedAt;
    this.#writeVarint(length);
    this.#position = moved + length;
  }

  /** Appends encoded fields. */
  writeBytes(fields: Uint8Array): void {
    this.#reserve(fields.length);
    this.#bytes.set(fields, this.#position);
    this.#position += fields.length;
  }

  /** A copy of everything written since index `start`. A message's tag is at the result of `openMessage` - 1. */
  copyFrom(start: number): Uint8Array {
    return Uint8Array.from(this.#bytes.subarray(start, this.#position));
  }

  // True if the text is ASCII and was written with its length; false leaves the position unchanged.
  #writeShortAscii(text: string): boolean {
    const bytes = this.#bytes;
    const start = this.#position + 1;
    let seen = 0;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      seen |= code;
      bytes[start + i] = code;
    }
    if (seen >= 0x80) return false;
    bytes[this.#position] = text.length;
    this.#position = start + text.length;
    return true;
  }

  #writeVarint(value: number): void {
    let rest = value;
    while (rest >= 0x80) {
      const low = rest % 0x80;
      this.#bytes[this.#position++] = low | 0x80;
      rest = (rest - low) / 0x80;
    }
    this.#bytes[this.#position++] = rest;
  }

  #reserve(count: number): void {
    const needed = this.#position + count;
    if (needed <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
    this.#bytes.copy(grown, 0, 0, this.#position);
    this.#bytes = grown;
  }
}

function varintBytes(value: number): number {
  let count = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) count++;
  return count;
}
