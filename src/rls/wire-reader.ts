// Reads the protocol buffer wire format from a buffer, one value at a time, without copying and without allocating.
// Knows no messages: src/rls/codec.ts does. Every fault is a RequestError that names the byte it was found at.

import { RequestError } from "../core/errors.ts";
import { SHORT_TEXT_BYTES_MAX, TextCache } from "./text-cache.ts";

/** Types of a field's encoding, the low three bits of its tag. */
export const WireType = { varint: 0, fixed64: 1, bytes: 2, startGroup: 3, endGroup: 4, fixed32: 5 } as const;

/** How deep groups may nest inside a group that is skipped; the depth that other implementations stop at. */
const GROUP_DEPTH_MAX = 100;
const WIRE_TYPE_BITS = 3;
const VARINT_BYTES_MAX = 10;

/** A cursor over one message; `open` makes it ready for the next. */
export class WireReader {
  #bytes: Buffer = Buffer.alloc(0);
  /** Index of the next byte. */
  position = 0;
  /** Where the message at hand ends: the buffer's end, or less inside an embedded message. */
  end = 0;
  /** Upper 32 bits of the varint read last, unsigned. */
  high = 0;
  // Field numbers of the groups that are open while one is skipped.
  readonly #short = new TextCache();
  readonly #groups = new Uint32Array(GROUP_DEPTH_MAX);

  /** Starts at the first byte of `message`, which is not kept longer than until `close`. */
  open(message: Buffer): void {
    this.#bytes = message;
    this.position = 0;
    this.end = message.length;
  }

  /** Lets go of the message. */
  close(): void {
    this.open(EMPTY);
  }

  /** The next field's tag: number times 8 plus wire type, at most 2^32 - 1. */
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

  /** The next varint's low 32 bits, unsigned; `high` has the rest. */
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
        // The tenth byte holds bit 63 alone.
        if (i === VARINT_BYTES_MAX - 1 && byte > 1) break;
        this.high = high >>> 0;
        return low >>> 0;
      }
    }
    throw malformed("a number of at most 64 bits", start);
  }

  /** Reads the length of text or of an embedded message that comes next; returns where it ends. */
  readEnd(): number {
    const start = this.position;
    const length = this.readVarint();
    if (this.high !== 0 || length > this.end - this.position) {
      throw malformed(`a length of at most ${this.end - this.position} bytes`, start);
    }
    return this.position + length;
  }

  /** Cuts the text from here to `end` as one-byte text, whatever its bytes are. */
  readText(end: number): string {
    const start = this.position;
    if (start === end) return "";
    this.position = end;
    return end - start <= SHORT_TEXT_BYTES_MAX
      ? this.#short.read(this.#bytes, start, end)
      : this.#bytes.latin1Slice(start, end);
  }

  /** Passes over the value of the field whose tag was just read. */
  skip(tag: number): void {
    if ((tag & 7) === WireType.startGroup) this.#skipGroup(tag >>> WIRE_TYPE_BITS);
    else this.#skipValue(tag);
  }

  // A loop in place of recursion: depth is the sender's choice.
  #skipGroup(field: number): void {
    this.#groups[0] = field;
    let depth = 1;
    while (depth > 0) {
      const start = this.position;
      const tag = this.readTag();
      const inner = tag >>> WIRE_TYPE_BITS;
      if ((tag & 7) === WireType.startGroup) {
        if (depth === GROUP_DEPTH_MAX) throw malformed(`at most ${GROUP_DEPTH_MAX} groups inside each other`, start);
        this.#groups[depth++] = inner;
      } else if ((tag & 7) === WireType.endGroup) {
        if (this.#groups[--depth] !== inner) throw malformed(`the end of group ${this.#groups[depth]}`, start);
      } else {
        this.#skipValue(tag);
      }
    }
  }

  #skipValue(tag: number): void {
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
      default:
        throw malformed("a wire type that may stand here", this.position);
    }
  }

  #skipBytes(count: number): void {
    if (count > this.end - this.position) throw malformed(`${count} more bytes`, this.end);
    this.position += count;
  }
}

const EMPTY = Buffer.alloc(0);

function malformed(expected: string, at: number): RequestError {
  return new RequestError("REQUEST_MALFORMED", `expected ${expected} at byte ${at} of the message`);
}
