// Bucket keys as bytes and as text: the same key either way, with the same hash.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hashBucketKey, KeyBytes, Keyed } from "../../../../src/engine/domain/key-bytes.ts";

const oneByteText = fc.string({ unit: fc.nat({ max: 255 }).map((code) => String.fromCharCode(code)), maxLength: 70 });

describe("keys of a call", () => {
  test("are read back as they were written, however many share the buffer", () => {
    fc.assert(
      fc.property(fc.array(oneByteText, { maxLength: 30 }), (texts) => {
        const keys = new KeyBytes(8);
        const keyed = texts.map((text) => {
          const one = new Keyed(keys);
          const at = keys.end;
          keys.write(text);
          one.endKey(at);
          return one;
        });
        expect(keyed.map((one) => one.bucketKey)).toEqual(texts);
        expect(keyed.map((one) => one.keyHash)).toEqual(texts.map(hashBucketKey));
      }),
    );
  });

  test("that repeat what was written begin alike", () => {
    const keys = new KeyBytes(0);
    keys.write("{edge|user=1");
    const length = keys.end;
    keys.write("}|tb/1");
    const first = new Keyed(keys);
    first.endKey(0);
    const at = keys.end;
    keys.repeat(0, length);
    keys.write("}|sw/60");
    const second = new Keyed(keys);
    second.endKey(at);
    expect([first.bucketKey, second.bucketKey]).toEqual(["{edge|user=1}|tb/1", "{edge|user=1}|sw/60"]);
  });

  test("leave no large buffer behind", () => {
    const keys = new KeyBytes();
    keys.write("k".repeat(100_000));
    keys.clear();
    expect([keys.end, keys.bytes.length < 20_000]).toEqual([0, true]);
  });
});
