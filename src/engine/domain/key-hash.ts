// The hash of a bucket key: 128 bits of SipHash-1-3. The memory store keeps the hash in place of the key. Callers choose the
// keys, but without the secret key of the hash they can't choose two keys that collide
// (docs/decisions/0014-hashes-in-place-of-keys.md).

import { randomBytes } from "node:crypto";
import { InvariantError } from "../base/invariant.ts";

export const HASH_KEY_BYTES = 16;

let keyInUse = Buffer.alloc(HASH_KEY_BYTES);
let keyLow0 = 0;
let keyHigh0 = 0;
let keyLow1 = 0;
let keyHigh1 = 0;

/**
 * Sets the secret key (16 bytes) of all hashes of this process; it is random otherwise. For a process that takes over buckets of
 * another. Must be called before any bucket key is hashed, because earlier hashes no longer match. Throws InvariantError for
 * another length.
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

/** A copy of the secret key, for a process that hands its buckets to another. Whoever knows it can make keys that collide. */
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

/**
 * Writes the hash of `length` bytes that begin at word `at`; zeros must pad them to a whole word. Each 64-bit word of SipHash is
 * kept as two 32-bit halves. A round costs about as much as two rounds of a 32-bit hash and takes in two words of the key
 * (bench/micro/key-hash.mjs).
 */
export function hashOfWords(words: Int32Array, at: number, length: number, into: KeyHash): void {
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

/** The carry of `one + other`. Without a branch, because the processor would predict a branch on key bytes wrong half the time. */
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
