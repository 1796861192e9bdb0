// The hash that stands in the place of bucket keys: SipHash-1-3 with 128 bits, as others compute it, under any key.

import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { hashBucketKey, keyedOf, useHashKey } from "../../../../src/engine/domain/key-bytes.ts";

const MASK = (1n << 64n) - 1n;
const turn = (value: bigint, bits: bigint) => ((value << bits) | (value >> (64n - bits))) & MASK;

/** SipHash-c-d with 128 bits, after its authors' description, in hex. */
function sipHash(c: number, d: number, key: Buffer, message: Buffer): string {
  const k0 = key.readBigUInt64LE(0);
  const k1 = key.readBigUInt64LE(8);
  let [v0, v1, v2, v3] = [
    k0 ^ 0x736f6d6570736575n,
    k1 ^ 0x646f72616e646f6dn ^ 0xeen,
    k0 ^ 0x6c7967656e657261n,
    k1 ^ 0x7465646279746573n,
  ];
  const rounds = (count: number) => {
    for (let i = 0; i < count; i++) {
      v0 = (v0 + v1) & MASK;
      v1 = turn(v1, 13n) ^ v0;
      v0 = turn(v0, 32n);
      v2 = (v2 + v3) & MASK;
      v3 = turn(v3, 16n) ^ v2;
      v0 = (v0 + v3) & MASK;
      v3 = turn(v3, 21n) ^ v0;
      v2 = (v2 + v1) & MASK;
      v1 = turn(v1, 17n) ^ v2;
      v2 = turn(v2, 32n);
    }
  };
  const padded = Buffer.alloc((message.length & ~7) + 8);
  message.copy(padded);
  padded[padded.length - 1] = message.length & 0xff;
  for (let at = 0; at < padded.length; at += 8) {
    v3 ^= padded.readBigUInt64LE(at);
    rounds(c);
    v0 ^= padded.readBigUInt64LE(at);
  }
  const hash = Buffer.alloc(16);
  v2 ^= 0xeen;
  rounds(d);
  hash.writeBigUInt64LE(v0 ^ v1 ^ v2 ^ v3, 0);
  v1 ^= 0xddn;
  rounds(d);
  hash.writeBigUInt64LE(v0 ^ v1 ^ v2 ^ v3, 8);
  return hash.toString("hex");
}

function hashOf(text: string): string {
  const { keyHash, keyHash1, keyHash2, keyHash3 } = keyedOf(text);
  const hash = Buffer.alloc(16);
  for (const [i, word] of [keyHash, keyHash1, keyHash2, keyHash3].entries()) hash.writeUInt32LE(word >>> 0, i * 4);
  return hash.toString("hex");
}

// Other tests of this file hash under a key of their own.
afterEach(() => useHashKey(randomBytes(16)));

describe("hashes of keys", () => {
  test("are compared with what the authors of SipHash publish", () => {
    const key = Buffer.from(Array.from({ length: 16 }, (_, i) => i));
    expect(sipHash(2, 4, key, Buffer.alloc(0))).toBe("a3817f04ba25a8e66df67214c7550293");
    expect(sipHash(2, 4, key, Buffer.from([0]))).toBe("da87c1d86b99af44347659119b22fc45");
  });

  test("are SipHash-1-3 of the key's bytes, whatever its length", () => {
    const bytes = fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.uint8Array({ minLength: 200, maxLength: 600 }));
    const hashKey = fc.uint8Array({ minLength: 16, maxLength: 16 });
    fc.assert(
      fc.property(bytes, hashKey, (message, key) => {
        useHashKey(Buffer.from(key));
        const text = Buffer.from(message).toString("latin1");
        expect(hashOf(text)).toBe(sipHash(1, 3, Buffer.from(key), Buffer.from(message)));
        expect(hashBucketKey(text)).toBe(keyedOf(text).keyHash);
      }),
    );
  });

  test("want a key of 16 bytes", () => {
    expect(() => useHashKey(randomBytes(15))).toThrow("16");
  });
});
