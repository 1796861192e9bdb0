// Replaces authorities that nghttp2, and so node:http2, refuses before any JavaScript runs, such as Istio's
// `outbound|8081||host`. There is no option for it, and nothing here reads an authority.
//
// Invariant: nothing changes its length. The value gets as many other characters in as many bytes. So frames, windows
// and header tables stay what the client takes them for, and a value in the table is replaced wherever it is named
// later: no state is kept but the place in the frames. Left alone, and refused: a name that is an entry of the header
// table (`:authority` is in the static one), and a Huffman code of more than 13 bits a character.

/**
 * How much of a header block is held back until it is complete. An authority beyond it is left alone; authorities come
 * first.
 */
export const HELD_BYTES_MAX = 4_096;

const PREFACE_BYTES = 24;
const FRAME_HEAD_BYTES = 9;
const HEADERS = 1;
const CONTINUATION = 9;
const END_HEADERS = 4;
const PADDED = 8;
const PRIORITY = 0x20;
const PRIORITY_BYTES = 5;

/** Rewrites what one client sends. */
export class AuthorityRewriter {
  #held: Buffer | undefined;
  /** Bytes that pass before the next frame begins. */
  #passing = PREFACE_BYTES;

  /** Returns what may go on of `piece` and of what was held back before it. Writes into `piece`. */
  rewrite(piece: Buffer): Buffer {
    const bytes = this.#held === undefined ? piece : Buffer.concat([this.#held, piece]);
    this.#held = undefined;
    let at = 0;
    for (;;) {
      const passed = Math.min(this.#passing, bytes.length - at);
      this.#passing -= passed;
      at += passed;
      if (at === bytes.length) return bytes;
      const end = rewriteFrame(bytes, at);
      if (end === undefined) break;
      this.#passing = end - at;
    }
    // Copied, because a piece can be a small part of a large buffer.
    this.#held = Buffer.from(bytes.subarray(at));
    return bytes.subarray(0, at);
  }
}

/**
 * Rewrites the frame at `at`, together with the CONTINUATIONs of its block. Returns where it ends; undefined before
 * enough of it came.
 */
function rewriteFrame(bytes: Buffer, at: number): number | undefined {
  const parts: Buffer[] = [];
  for (let frame = at; ; ) {
    const start = frame + FRAME_HEAD_BYTES;
    if (start > bytes.length) return undefined;
    const end = start + bytes.readUIntBE(frame, 3);
    const flags = bytes.readUInt8(frame + 4);
    const isFirst = frame === at;
    if (bytes[frame + 3] !== (isFirst ? HEADERS : CONTINUATION)) return isFirst ? end : frame;
    const isFull = bytes.length - at >= HELD_BYTES_MAX;
    if (end > bytes.length && !isFull) return undefined;
    parts.push(isFirst ? fragmentOf(bytes, start, end, flags) : bytes.subarray(start, end));
    if ((flags & END_HEADERS) !== 0 || isFull) {
      rewriteParts(parts);
      return end;
    }
    frame = end;
  }
}

/** The part of a HEADERS frame that has fields. */
function fragmentOf(bytes: Buffer, start: number, end: number, flags: number): Buffer {
  const isPadded = (flags & PADDED) !== 0;
  const from = start + (isPadded ? 1 : 0) + ((flags & PRIORITY) === 0 ? 0 : PRIORITY_BYTES);
  return bytes.subarray(from, Math.max(from, end - (isPadded ? (bytes[start] ?? 0) : 0)));
}

function rewriteParts(parts: readonly Buffer[]): void {
  const block = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
  new BlockReader(block).rewrite();
  if (parts.length === 1) return;
  let at = 0;
  for (const part of parts) at += block.copy(part, 0, at);
}

/**
 * Printable characters, one of which at least nghttp2 takes in no authority; since 1.65 also `@`. Blanks, controls and
 * bytes above 127 stay refused.
 */
const ODD = /^(?=.*["#/<>?@\\^`{|}])[!-~]+$/;
const NAMES = new Set([":authority", "host"]);
/** Where `:authority` and `host` are in the static table. */
const AUTHORITY_INDEX = 1;
const HOST_INDEX = 38;
const INTEGER_BYTES_MAX = 4;

/** Reads a header block (RFC 7541, 6) up to its end, or to what is no valid block. */
class BlockReader {
  readonly #block: Buffer;
  #at = 0;

  constructor(block: Buffer) {
    this.#block = block;
  }

  rewrite(): void {
    while (this.#at < this.#block.length) {
      const first = this.#block[this.#at] as number;
      if (first >= 0x80) this.#integer(7);
      else if (first >= 0x20 && first < 0x40) this.#integer(5);
      else {
        const index = this.#integer(first >= 0x40 ? 6 : 4);
        const isAuthority =
          index === 0 ? NAMES.has(this.#text(this.#string()) ?? "") : index === AUTHORITY_INDEX || index === HOST_INDEX;
        const value = this.#string();
        if (isAuthority) this.#replace(value);
      }
    }
  }

  /** An integer with a prefix of `bits`. One that is too long or cut ends the block. */
  #integer(bits: number): number {
    const max = 2 ** bits - 1;
    let value = (this.#block[this.#at++] ?? 0) & max;
    if (value < max) return value;
    for (let i = 0; i < INTEGER_BYTES_MAX; i++) {
      const byte = this.#block[this.#at++] ?? 0x80;
      value += (byte & 0x7f) * 2 ** (7 * i);
      if (byte < 0x80) return value;
    }
    this.#at = this.#block.length;
    return 0;
  }

  #string(): StringPlace {
    const isCoded = ((this.#block[this.#at] ?? 0) & 0x80) !== 0;
    const length = this.#integer(7);
    const start = this.#at;
    this.#at += length;
    return { start, end: this.#at, isCoded };
  }

  /** undefined if it is cut or no text of printable characters. */
  #text({ start, end, isCoded }: StringPlace): string | undefined {
    if (end > this.#block.length) return undefined;
    const bytes = this.#block.subarray(start, end);
    return isCoded ? decodePrintable(bytes) : bytes.toString("latin1");
  }

  #replace(place: StringPlace): void {
    const text = this.#text(place);
    if (text === undefined || !ODD.test(text)) return;
    const bytes = this.#block.subarray(place.start, place.end);
    if (place.isCoded) writeAnyCode(bytes, text.length);
    else bytes.fill("a");
  }
}

interface StringPlace {
  readonly start: number;
  readonly end: number;
  /** In Huffman code. */
  readonly isCoded: boolean;
}

/** HPACK's code for printable characters: codes ascend by length, within a length as listed. */
const SYMBOLS: Readonly<Record<number, string>> = {
  5: "012aceiost",
  6: " %-./3456789=A_bdfghlmnpru",
  7: ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
  8: "&*,;XZ",
  10: '!"()?',
  11: "'+|",
  12: "#>",
  13: "\0$@[]~",
  14: "^}",
  15: "<`{",
  19: "\\",
};
const CODE_BITS_MAX = 19;

/** Decodes text of characters that `SYMBOLS` has; undefined for others and for a wrong end. */
function decodePrintable(bytes: Buffer): string | undefined {
  let text = "";
  let code = 0;
  let bits = 0;
  /** The first code of `bits`. */
  let first = 0;
  for (let at = 0; at < bytes.length * 8; at++) {
    code = code * 2 + (((bytes[at >> 3] as number) >> (7 - (at & 7))) & 1);
    if (++bits > CODE_BITS_MAX) return undefined;
    const symbols = SYMBOLS[bits] ?? "";
    first *= 2;
    const symbol = symbols[code - first];
    if (symbol === undefined) first += symbols.length;
    else {
      text += symbol;
      code = bits = first = 0;
    }
  }
  return bits < 8 && code === 2 ** bits - 1 ? text : undefined;
}

const SHORT = { code: 0b00011, bits: 5 }; // a
const LONG = { code: 0b1_1111_1111_1101, bits: 13 }; // ~

/** Fills `bytes` with the code of `count` characters, if that many can have so long a code. */
function writeAnyCode(bytes: Buffer, count: number): void {
  // A long code has a byte more than a short one.
  const longs = bytes.length - Math.ceil((count * SHORT.bits) / 8);
  if (longs > count) return;
  let pending = 0;
  let bits = 0;
  let at = 0;
  for (let i = 0; i < count; i++) {
    const one = i < longs ? LONG : SHORT;
    pending = (pending << one.bits) | one.code;
    for (bits += one.bits; bits >= 8; bits -= 8) bytes[at++] = (pending >> (bits - 8)) & 0xff;
    pending &= 2 ** bits - 1;
  }
  if (bits > 0) bytes[at] = (pending << (8 - bits)) | (0xff >> bits);
}
