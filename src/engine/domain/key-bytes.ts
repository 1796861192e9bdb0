// Bucket keys as bytes. A call writes the keys of its takes one after another into one buffer, and hashes them there by
// 32-bit words. A key becomes a string only when somebody reads it.

import { randomBytes } from "../../base/host.ts";
import { InvariantError } from "../../base/invariant.ts";

const INITIAL_BYTES = 512;
/** A buffer that one call made larger than this is replaced by a small one before the next call. */
const KEPT_BYTES_MAX = 16_384;
const WORD = 4;
/**
 * Longer text is written by latin1Write, shorter text char by char. Of 8, 16 and 24, this bound costs a whole call
 * least.
 */
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
 * Base of everything that has a bucket key. The key is there as bytes in a KeyBytes, as text, or as both; the missing
 * form is made when it is asked for. With bytes all four parts of the hash are set, with text alone only `keyHash` is.
 */
export class Keyed implements KeyHash {
  keys: KeyBytes;
  /** Where the key's bytes begin in `keys`, if `keyLength` is not negative; a multiple of four. */
  keyAt = 0;
  /** Length of the key in bytes; negative if only its text is there. */
  keyLength = 0;
  /** The key's hash (key-bytes.ts): equal for equal keys within this process. */
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

  /**
   * Makes the bytes written to `keys` since `at` the key, and hashes them. `at` must be `keys.end` as `pad` or `clear`
   * left it.
   */
  endKey(at: number): void {
    const { keys } = this;
    this.keyAt = at;
    this.keyLength = keys.end - at;
    this.#text = undefined;
    keys.pad();
    hashOfWords(keys.words, at >>> 2, this.keyLength, this);
  }

  /**
   * Shares the key and the hash of `other`. Bytes are not copied: they must stay in place for as long as this key is
   * used.
   */
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

  /** Takes the hash in place of a key, whose text is not known. */
  useHash({ keyHash, keyHash1, keyHash2, keyHash3 }: KeyHash): void {
    this.keyLength = 0;
    this.keyHash = keyHash;
    this.keyHash1 = keyHash1;
    this.keyHash2 = keyHash2;
    this.keyHash3 = keyHash3;
    this.#text = "";
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

// The hash of a bucket key: 128 bits of SipHash-1-3. The memory store keeps the hash in place of the key. Callers
// choose the keys, but without the secret key of the hash they can't choose two keys that collide
// (docs/decisions/0014-hashes-in-place-of-keys.md).

const HASH_KEY_BYTES = 16;

let keyInUse = Buffer.alloc(HASH_KEY_BYTES);
let keyLow0 = 0;
let keyHigh0 = 0;
let keyLow1 = 0;
let keyHigh1 = 0;

/**
 * Sets the secret key (16 bytes) of all hashes of this process; it is random otherwise. For a process that takes over
 * buckets of another. Must be called before any bucket key is hashed, because earlier hashes no longer match. Throws
 * InvariantError for another length.
 */
export function useHashKey(key: Buffer): void {
  if (key.length !== HASH_KEY_BYTES)
    throw new InvariantError(`a hash key of ${key.length} bytes has ${HASH_KEY_BYTES}`);
  keyInUse = Buffer.from(key);
  keyLow0 = key.readInt32LE(0);
  keyHigh0 = key.readInt32LE(4);
  keyLow1 = key.readInt32LE(8);
  keyHigh1 = key.readInt32LE(12);
}

useHashKey(randomBytes(HASH_KEY_BYTES));

/**
 * A copy of the secret key, for a process that hands its buckets to another. Anyone who knows it can make keys that
 * collide.
 */
export function hashKeyInUse(): Buffer {
  return Buffer.from(keyInUse);
}

/** A 128-bit hash in four parts. */
export interface KeyHash {
  /** The first 32 bits, unsigned. */
  keyHash: number;
  /** The other 96 bits, signed, as an Int32Array holds them. */
  keyHash1: number;
  keyHash2: number;
  keyHash3: number;
}

export function newHash(): KeyHash {
  return { keyHash: 0, keyHash1: 0, keyHash2: 0, keyHash3: 0 };
}

/** Reads a hash that lies in four words. */
export function readHash(words: Int32Array, at: number, into: KeyHash): void {
  into.keyHash = (words[at] as number) >>> 0;
  into.keyHash1 = words[at + 1] as number;
  into.keyHash2 = words[at + 2] as number;
  into.keyHash3 = words[at + 3] as number;
}

export function writeHash(words: Int32Array, at: number, { keyHash, keyHash1, keyHash2, keyHash3 }: KeyHash): void {
  words[at] = keyHash;
  words[at + 1] = keyHash1;
  words[at + 2] = keyHash2;
  words[at + 3] = keyHash3;
}

/** Whether the words there have this hash, all 128 bits of it. */
export function isHashAt(words: Int32Array, at: number, key: KeyHash): boolean {
  return (
    words[at] === (key.keyHash | 0) &&
    words[at + 1] === key.keyHash1 &&
    words[at + 2] === key.keyHash2 &&
    words[at + 3] === key.keyHash3
  );
}

/**
 * Writes the hash of `length` bytes that begin at word `at`; zeros must pad them to a whole word. Each 64-bit word of
 * SipHash is kept as two 32-bit halves. A round costs about as much as two rounds of a 32-bit hash and takes in two
 * words of the key.
 */
function hashOfWords(words: Int32Array, at: number, length: number, into: KeyHash): void {
  let low0 = 0x70736575 ^ keyLow0;
  let high0 = 0x736f6d65 ^ keyHigh0;
  let low1 = 0x6e646f6d ^ keyLow1 ^ 0xee;
  let high1 = 0x646f7261 ^ keyHigh1;
  let low2 = 0x6e657261 ^ keyLow0;
  let high2 = 0x6c796765 ^ keyHigh0;
  let low3 = 0x79746573 ^ keyLow1;
  let high3 = 0x74656462 ^ keyHigh1;
  const end = at + ((length + 3) >>> 2);
  const lastBlock = at + (length >>> 3) * 2;
  // One round per eight bytes, one for the rest with the length, then three and three for the two halves of the result.
  for (let i = at; i <= lastBlock + 12; i += 2) {
    let low = 0;
    let high = 0;
    if (i < lastBlock) {
      low = words[i] as number;
      high = words[i + 1] as number;
    } else if (i === lastBlock) {
      if (i < end) low = words[i] as number;
      if (i + 1 < end) high = words[i + 1] as number;
      high |= length << 24;
    } else if (i === lastBlock + 2) {
      low2 ^= 0xee;
    } else if (i === lastBlock + 8) {
      into.keyHash = (low0 ^ low1 ^ low2 ^ low3) >>> 0;
      into.keyHash1 = high0 ^ high1 ^ high2 ^ high3;
      low1 ^= 0xdd;
    }
    low3 ^= low;
    high3 ^= high;
    let sum = (low0 + low1) | 0;
    high0 = (high0 + high1 + carryOf(low0, low1, sum)) | 0;
    low0 = sum;
    let turned = (low1 << 13) | (high1 >>> 19);
    high1 = ((high1 << 13) | (low1 >>> 19)) ^ high0;
    low1 = turned ^ low0;
    turned = low0;
    low0 = high0;
    high0 = turned;
    sum = (low2 + low3) | 0;
    high2 = (high2 + high3 + carryOf(low2, low3, sum)) | 0;
    low2 = sum;
    turned = (low3 << 16) | (high3 >>> 16);
    high3 = ((high3 << 16) | (low3 >>> 16)) ^ high2;
    low3 = turned ^ low2;
    sum = (low0 + low3) | 0;
    high0 = (high0 + high3 + carryOf(low0, low3, sum)) | 0;
    low0 = sum;
    turned = (low3 << 21) | (high3 >>> 11);
    high3 = ((high3 << 21) | (low3 >>> 11)) ^ high0;
    low3 = turned ^ low0;
    sum = (low2 + low1) | 0;
    high2 = (high2 + high1 + carryOf(low2, low1, sum)) | 0;
    low2 = sum;
    turned = (low1 << 17) | (high1 >>> 15);
    high1 = ((high1 << 17) | (low1 >>> 15)) ^ high2;
    low1 = turned ^ low2;
    turned = low2;
    low2 = high2;
    high2 = turned;
    low0 ^= low;
    high0 ^= high;
  }
  into.keyHash2 = low0 ^ low1 ^ low2 ^ low3;
  into.keyHash3 = high0 ^ high1 ^ high2 ^ high3;
}

/**
 * The carry of `one + other`. Without a branch, because the processor would predict a branch on key bytes wrong half
 * the time.
 */
function carryOf(one: number, other: number, sum: number): number {
  return ((one & other) | ((one | other) & ~sum)) >>> 31;
}

const hashed: KeyHash = { keyHash: 0, keyHash1: 0, keyHash2: 0, keyHash3: 0 };
let scratch = Buffer.allocUnsafeSlow(1_024);

/** The first 32 bits of the hash of one-byte text. `hashOfWords` is quicker where the bytes are already in a buffer. */
export function hashBucketKey(bucketKey: string): number {
  const length = bucketKey.length;
  if (length > scratch.length - 4) scratch = Buffer.allocUnsafeSlow((length + 8) & -4);
  const words = new Int32Array(scratch.buffer, scratch.byteOffset, scratch.length >>> 2);
  words[length >>> 2] = 0;
  scratch.write(bucketKey, 0, "latin1");
  hashOfWords(words, 0, length, hashed);
  return hashed.keyHash;
}
