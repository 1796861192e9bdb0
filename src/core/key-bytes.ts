// Bucket keys as bytes. A call writes the keys of its takes one after another into one buffer: no string is made of them
// unless somebody wants to read one, and they are hashed, compared and copied by words.

import { hashOfWords, type KeyHash } from "./key-hash.ts";

const INITIAL_BYTES = 512;
/** A buffer that one call made larger than this is not kept for the next. */
const KEPT_BYTES_MAX = 16_384;
const WORD = 4;
/** Text longer than this is written at once. Of 8, 16 and 24, the one that costs a whole call least. */
const READ_SINGLY_MAX = 8;

/** Keys one after another, each at a multiple of four bytes and followed by zeros up to the next. */
export class KeyBytes {
  bytes: Buffer;
  /** `bytes`, seen as words of 32 bits. */
  words: Int32Array;
  /** Where the next byte goes. */
  end = 0;

  constructor(size = INITIAL_BYTES) {
    this.bytes = Buffer.allocUnsafeSlow(size);
    this.words = wordsOf(this.bytes);
  }

  /** Forgets all keys. */
  clear(): void {
    this.end = 0;
    if (this.bytes.length > KEPT_BYTES_MAX) this.#replace(INITIAL_BYTES);
  }

  /** Makes room for `count` bytes and the zeros behind them. */
  reserve(count: number): void {
    const needed = this.end + count + WORD;
    if (needed <= this.bytes.length) return;
    const old = this.bytes;
    this.#replace(Math.max(needed, old.length * 2));
    old.copy(this.bytes, 0, 0, this.end);
  }

  /** Appends one-byte text as it is. */
  write(text: string): void {
    const { length } = text;
    this.reserve(length);
    const { bytes } = this;
    const at = this.end;
    if (length > READ_SINGLY_MAX) bytes.latin1Write(text, at, length);
    else for (let i = 0; i < length; i++) bytes[at + i] = text.charCodeAt(i);
    this.end = at + length;
  }

  /** Appends bytes that were written before. */
  repeat(from: number, length: number): void {
    this.reserve(length);
    this.bytes.copyWithin(this.end, from, from + length);
    this.end += length;
  }

  /** What was written from `from` on, as one-byte text. */
  textFrom(from: number): string {
    return this.bytes.latin1Slice(from, this.end);
  }

  /** Ends a key: what is written next begins the next one. */
  pad(): void {
    this.reserve(0);
    while ((this.end & (WORD - 1)) !== 0) this.bytes[this.end++] = 0;
  }

  #replace(size: number): void {
    this.bytes = Buffer.allocUnsafeSlow((size + WORD - 1) & -WORD);
    this.words = wordsOf(this.bytes);
  }
}

function wordsOf(bytes: Buffer): Int32Array {
  return new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >>> 2);
}

/**
 * What has a bucket key: as bytes in a KeyBytes, as text, or as both; each is made of the other when it is wanted. Where
 * there are bytes there is their whole hash; with text alone `keyHash` is all there is of it.
 */
export class Keyed implements KeyHash {
  /** Where the key's bytes are, if `keyLength` is not negative; a multiple of four. */
  keys: KeyBytes;
  keyAt = 0;
  /** Bytes of the key; negative if it is there as text only. */
  keyLength = 0;
  /** The key's hash (key-hash.ts), the same in all of this process. */
  keyHash = 0;
  keyHash1 = 0;
  keyHash2 = 0;
  keyHash3 = 0;
  #text: string | undefined = "";

  constructor(keys: KeyBytes) {
    this.keys = keys;
  }

  /** The key as one-byte text, flat. */
  get bucketKey(): string {
    if (this.#text === undefined) {
      this.#text = this.keys.bytes.latin1Slice(this.keyAt, this.keyAt + this.keyLength);
    }
    return this.#text;
  }

  /** Sets the text alone: `keyHash` is the caller's. */
  set bucketKey(text: string) {
    this.#text = text;
    this.keyLength = -1;
  }

  /** Takes what was written to `keys` from `at` on as the key, and hashes it. `at` was the end after `pad` or `clear`. */
  endKey(at: number): void {
    const { keys } = this;
    this.keyAt = at;
    this.keyLength = keys.end - at;
    this.#text = undefined;
    keys.pad();
    hashOfWords(keys.words, at >>> 2, this.keyLength, this);
  }

  /** Takes over another's key and its hash. Where it is bytes, they have to stay for as long as they are used here. */
  useKeyOf(other: Keyed): void {
    this.keys = other.keys;
    this.keyAt = other.keyAt;
    this.keyLength = other.keyLength;
    this.keyHash = other.keyHash;
    this.keyHash1 = other.keyHash1;
    this.keyHash2 = other.keyHash2;
    this.keyHash3 = other.keyHash3;
    this.#text = other.#text;
  }

  /** Sees to it that the key is there as bytes, with its whole hash. */
  needKeyBytes(): void {
    if (this.keyLength >= 0) return;
    const text = this.bucketKey;
    const { keys } = this;
    const at = keys.end;
    keys.write(text);
    this.endKey(at);
    this.#text = text;
  }

  /** True if both have the same key, told by its hash. Both are there as bytes. */
  hasKeyOf(other: KeyHash): boolean {
    return (
      this.keyHash === other.keyHash &&
      this.keyHash1 === other.keyHash1 &&
      this.keyHash2 === other.keyHash2 &&
      this.keyHash3 === other.keyHash3
    );
  }
}

/** A key of its own, with its bytes. */
export function keyedOf(bucketKey: string): Keyed {
  const keyed = new Keyed(new KeyBytes(bucketKey.length + WORD));
  keyed.keys.write(bucketKey);
  keyed.endKey(0);
  return keyed;
}
