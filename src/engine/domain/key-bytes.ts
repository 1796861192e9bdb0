// Bucket keys as bytes. A call writes the keys of its takes one after another into one buffer, and hashes them there by 32-bit
// words. A key becomes a string only when somebody reads it.

import { hashOfWords, type KeyHash } from "./key-hash.ts";

const INITIAL_BYTES = 512;
/** A buffer that one call made larger than this is replaced by a small one before the next call. */
const KEPT_BYTES_MAX = 16_384;
const WORD = 4;
/** Longer text is written by latin1Write, shorter text char by char. Of 8, 16 and 24, this bound costs a whole call least. */
const READ_SINGLY_MAX = 8;

/** A growing buffer of keys. Each key begins at a multiple of four bytes; zeros fill the gap to the next one. */
export class KeyBytes {
  bytes: Buffer;
  /** A view of `bytes` as 32-bit words. */
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

  /** Makes room for `count` bytes and their padding. */
  reserve(count: number): void {
    const needed = this.end + count + WORD;
    if (needed <= this.bytes.length) return;
    const old = this.bytes;
    this.#replace(Math.max(needed, old.length * 2));
    old.copy(this.bytes, 0, 0, this.end);
  }

  /** Appends one-byte text (engine/domain/request.ts). */
  write(text: string): void {
    const { length } = text;
    this.reserve(length);
    const { bytes } = this;
    const at = this.end;
    if (length > READ_SINGLY_MAX) bytes.latin1Write(text, at, length);
    else for (let i = 0; i < length; i++) bytes[at + i] = text.charCodeAt(i);
    this.end = at + length;
  }

  /** Appends a copy of `length` bytes written earlier, which begin at `from`. */
  repeat(from: number, length: number): void {
    this.reserve(length);
    this.bytes.copyWithin(this.end, from, from + length);
    this.end += length;
  }

  /** Everything written since `from`, as one-byte text. */
  textFrom(from: number): string {
    return this.bytes.latin1Slice(from, this.end);
  }

  /** Pads with zeros to a multiple of four: the next key begins there. */
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
 * Base of everything that has a bucket key. The key is there as bytes in a KeyBytes, as text, or as both; the missing form is made
 * when it is asked for. With bytes all four parts of the hash are set, with text alone only `keyHash` is.
 */
export class Keyed implements KeyHash {
  keys: KeyBytes;
  /** Where the key's bytes begin in `keys`, if `keyLength` is not negative; a multiple of four. */
  keyAt = 0;
  /** Length of the key in bytes; negative if only its text is there. */
  keyLength = 0;
  /** The key's hash (key-hash.ts): equal for equal keys within this process. */
  keyHash = 0;
  keyHash1 = 0;
  keyHash2 = 0;
  keyHash3 = 0;
  #text: string | undefined = "";

  constructor(keys: KeyBytes) {
    this.keys = keys;
  }

  /** The key as one-byte text. */
  get bucketKey(): string {
    if (this.#text === undefined) {
      this.#text = this.keys.bytes.latin1Slice(this.keyAt, this.keyAt + this.keyLength);
    }
    return this.#text;
  }

  /** Sets the key as text alone. The caller must set `keyHash` too. */
  set bucketKey(text: string) {
    this.#text = text;
    this.keyLength = -1;
  }

  /** Makes the bytes written to `keys` since `at` the key, and hashes them. `at` must be `keys.end` as `pad` or `clear` left it. */
  endKey(at: number): void {
    const { keys } = this;
    this.keyAt = at;
    this.keyLength = keys.end - at;
    this.#text = undefined;
    keys.pad();
    hashOfWords(keys.words, at >>> 2, this.keyLength, this);
  }

  /** Shares the key and the hash of `other`. Bytes are not copied: they must stay in place for as long as this key is used. */
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

  /** Makes sure that the key is there as bytes, with its whole hash. */
  needKeyBytes(): void {
    if (this.keyLength >= 0) return;
    const text = this.bucketKey;
    const { keys } = this;
    const at = keys.end;
    keys.write(text);
    this.endKey(at);
    this.#text = text;
  }

  /** True if both keys have the same 128-bit hash, which counts as the same key. Both must be there as bytes. */
  hasKeyOf(other: KeyHash): boolean {
    return (
      this.keyHash === other.keyHash &&
      this.keyHash1 === other.keyHash1 &&
      this.keyHash2 === other.keyHash2 &&
      this.keyHash3 === other.keyHash3
    );
  }
}

/** A Keyed with a buffer of its own. */
export function keyedOf(bucketKey: string): Keyed {
  const keyed = new Keyed(new KeyBytes(bucketKey.length + WORD));
  keyed.keys.write(bucketKey);
  keyed.endKey(0);
  return keyed;
}
