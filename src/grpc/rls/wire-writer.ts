// Writes the protobuf wire format into a growing buffer that is reused. Knows no messages.

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
    // The length comes before the text but is known only after it: the text is written after the widest possible length, then moved.
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

  /** Closes the message that was opened last. One byte is reserved for its length; a longer length moves the message. */
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

  /** A copy of everything written since index `start`. A message's tag stands at the result of `openMessage` - 1. */
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
