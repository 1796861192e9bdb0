// The protocol buffer wire format: reads fields from bytes, and writes fields to bytes. Knows no messages.

/** A number, or the bytes of text or of an embedded message. */
type FieldValue = number | Buffer;

// Wire types, the low three bits of a tag. Groups (3 and 4) are obsolete, and no message here has any.
const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

/** Longest varint: 64 bits, seven in each byte. */
const VARINT_BYTES_MAX = 10;

/**
 * The fields of a message by their numbers. As in proto3 an absent number is 0 and absent text is empty; of a repeated
 * one the last counts. Numbers above 2^53 are rounded, and eight-byte fields are read as doubles.
 */
export class Fields {
  readonly #numbers: number[] = [];
  readonly #values: FieldValue[] = [];
  readonly #message: Buffer;
  #at = 0;

  /** Throws for bytes that are no message. */
  constructor(message: Buffer) {
    this.#message = message;
    while (this.#at < message.length) {
      const tag = this.#readVarint();
      const type = tag % 8;
      this.#numbers.push(Math.floor(tag / 8));
      if (type === VARINT) this.#values.push(this.#readVarint());
      else if (type === FIXED64) this.#values.push(this.#readBytes(8).readDoubleLE());
      else if (type === BYTES) this.#values.push(this.#readBytes(this.#readVarint()));
      else if (type === FIXED32) this.#values.push(this.#readBytes(4));
      else throw malformed(this.#at);
    }
  }

  number(field: number): number {
    const value = this.#last(field) ?? 0;
    if (typeof value === "number") return value;
    throw new Error("the answer is not of the form that was expected: a field has bytes in the place of a number");
  }

  text(field: number): string {
    return this.bytes(field)?.toString("utf8") ?? "";
  }

  /** The bytes of an embedded message; undefined if it is absent. */
  bytes(field: number): Buffer | undefined {
    const value = this.#last(field);
    return value === undefined ? undefined : bytesOf(value);
  }

  /** All embedded messages of a repeated field, in their order. */
  all(field: number): readonly Buffer[] {
    return this.#values.filter((_, i) => this.#numbers[i] === field).map(bytesOf);
  }

  /** The last of these fields that is there: the one that counts of a `oneof`. */
  lastOf(fields: readonly number[]): number | undefined {
    return this.#numbers.findLast((number) => fields.includes(number));
  }

  /** A google.protobuf.Duration, rounded up to whole seconds, so that a caller who waits for it is not too early. */
  wholeSeconds(field: number): number | undefined {
    const message = this.bytes(field);
    if (message === undefined) return undefined;
    const duration = new Fields(message);
    return duration.number(1) + (duration.number(2) > 0 ? 1 : 0);
  }

  #last(field: number): FieldValue | undefined {
    return this.#values[this.#numbers.lastIndexOf(field)];
  }

  #readVarint(): number {
    let value = 0;
    for (let i = 0; i < VARINT_BYTES_MAX; i++) {
      const byte = this.#message[this.#at++];
      if (byte === undefined) break;
      value += (byte & 0x7f) * 2 ** (7 * i);
      if (byte < 0x80) return value;
    }
    throw malformed(this.#at);
  }

  #readBytes(length: number): Buffer {
    const start = this.#at;
    this.#at += length;
    if (this.#at > this.#message.length) throw malformed(start);
    return this.#message.subarray(start, this.#at);
  }
}

function malformed(at: number): Error {
  return new Error(`the answer is no protocol buffer message: damaged at byte ${at}`);
}

function bytesOf(value: FieldValue): Buffer {
  if (typeof value !== "number") return value;
  throw new Error("the answer is not of the form that was expected: a field has a number in the place of bytes");
}

/**
 * Writes the fields of a message in the order in which they are added. Field numbers are 1 to 15, so a tag takes one
 * byte.
 */
export class FieldWriter {
  readonly #parts: Buffer[] = [];

  /** A whole number from 0 to 2^53 - 1. */
  addNumber(field: number, value: number): this {
    this.#parts.push(Buffer.from([field * 8 + VARINT, ...varintOf(value)]));
    return this;
  }

  /** Text, or an embedded message. An unpaired surrogate becomes U+FFFD. */
  addBytes(field: number, value: string | Buffer): this {
    const bytes = typeof value === "string" ? Buffer.from(value) : value;
    this.#parts.push(Buffer.from([...varintOf(field * 8 + BYTES), ...varintOf(bytes.length)]), bytes);
    return this;
  }

  /** The bytes of the message. */
  toBytes(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

function varintOf(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) + 0x80);
  bytes.push(rest);
  return bytes;
}
