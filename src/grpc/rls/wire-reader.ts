// Reads the protobuf wire format from a buffer, one value at a time, without copying and without allocating. Knows no messages:
// src/grpc/rls/codec.ts does. Every error is a RequestError that names the position of the byte.

import { RequestError } from "../../engine/base/errors.ts";
import { SHORT_TEXT_BYTES_MAX, TextCache } from "./text-cache.ts";

/** Wire types: the low three bits of a tag. */
export const WireType = { varint: 0, fixed64: 1, bytes: 2, startGroup: 3, endGroup: 4, fixed32: 5 } as const;

/** Most groups nested in each other that are skipped; other protobuf implementations have the same bound. */
const GROUP_DEPTH_MAX = 100;
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
  /** Field numbers of the open groups while a group is skipped. */
  readonly #groups = new Uint32Array(GROUP_DEPTH_MAX);

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
  skip(tag: number): void {
    if ((tag & 7) === WireType.startGroup) this.#skipGroup(tag >>> WIRE_TYPE_BITS);
    else this.#skipValue(tag);
  }

  // A loop and no recursion, because the sender chooses the depth.
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

/** The error for a message that lacks what was expected at byte `at`. */
export function malformed(expected: string, at: number): RequestError {
  return new RequestError("REQUEST_MALFORMED", `expected ${expected} at byte ${at} of the message`);
}
