// The hash of a bucket key: whoever makes a key makes it too, whoever keeps buckets finds them by it. Seeded anew in every
// process, so that callers who choose keys can't choose them to collide; nothing that outlives the process may hang on it.

import { randomBytes } from "node:crypto";

const SEED_LOW = randomBytes(4).readInt32LE();
const SEED_HIGH = randomBytes(4).readInt32LE();

/**
 * Hash of `length` bytes that begin at word `at` and are followed by zeros up to a whole word; unsigned 32 bit. It is
 * HalfSipHash-1-3, but that the length has a word of its own. A word per round makes it no slower than simpler hashes that
 * look at every byte (bench/micro/take.mjs).
 */
export function hashOfWords(words: Int32Array, at: number, length: number): number {
  let v0 = SEED_LOW;
  let v1 = SEED_HIGH;
  let v2 = 0x6c796765 ^ SEED_LOW;
  let v3 = 0x74656462 ^ SEED_HIGH;
  // The length takes a word of its own, as the last one; then three rounds more finish.
  const last = at + ((length + 3) >>> 2);
  for (let i = at; i <= last + 3; i++) {
    const word = i < last ? (words[i] as number) : i === last ? length : 0;
    if (i === last + 1) v2 ^= 0xff;
    v3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
    v2 = (v2 << 16) | (v2 >>> 16);
    v0 ^= word;
  }
  return (v1 ^ v3) >>> 0;
}

/** The hash of one-byte text. Where the bytes are at hand, `hashOfWords` is quicker. */
export function hashBucketKey(bucketKey: string): number {
  const length = bucketKey.length;
  if (length > scratch.length - 4) scratch = Buffer.allocUnsafeSlow((length + 8) & -4);
  const words = new Int32Array(scratch.buffer, scratch.byteOffset, scratch.length >>> 2);
  words[length >>> 2] = 0;
  scratch.write(bucketKey, 0, "latin1");
  return hashOfWords(words, 0, length);
}

let scratch = Buffer.allocUnsafeSlow(1_024);
