// Different buckets have different names, whatever text callers send.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hashBucketKey, KeyBytes } from "../../src/engine/domain/key-bytes.ts";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import { oneByteOf } from "../../src/engine/domain/request.ts";
import {
  domainKeyPrefix,
  globalBucketKey,
  limitKeySuffix,
  VALUE_BYTES_IN_KEY_MAX,
  writeEntry,
  writeSharedEntry,
} from "../../src/engine/rules/bucket-key.ts";
import { runs } from "../support/runs.ts";

interface Named {
  readonly domain: string;
  readonly entries: readonly { readonly key: string; readonly value: string; readonly shared: boolean }[];
  readonly algorithm: Algorithm;
  readonly windowSeconds: number;
  readonly name: string;
}

function keyOf(named: Named): string {
  const keys = new KeyBytes();
  for (const entry of named.entries) {
    const [key, value] = [oneByteOf(entry.key), oneByteOf(entry.value)];
    const pattern = { kind: "wildcard" as const, pieces: value.split("*") };
    if (entry.shared) writeSharedEntry(keys, key, { key, pattern, patternText: value });
    else writeEntry(keys, key, value, false);
  }
  const suffix = limitKeySuffix(named.algorithm, named.windowSeconds, oneByteOf(named.name));
  return domainKeyPrefix("", oneByteOf(named.domain)) + keys.textFrom(0) + suffix;
}

function entryKeyPart(key: string, value: string): string {
  const keys = new KeyBytes();
  writeEntry(keys, key, value, false);
  return keys.textFrom(0);
}

// Text made of the letters that keys are built with, so that collisions would be found if there were any.
const trickyText = fc.oneof(
  fc.string({
    unit: fc.constantFrom("a", "b", "_", "|", "=", "{", "}", "%", "*", "#", "/", ":", "2", "5", " ", "\n", "é"),
  }),
  fc.string({ unit: "grapheme", maxLength: 8 }),
);

const named: fc.Arbitrary<Named> = fc.record({
  domain: trickyText,
  entries: fc.array(fc.record({ key: trickyText, value: trickyText, shared: fc.boolean() }), { maxLength: 3 }),
  algorithm: fc.constantFrom(...Object.values(Algorithm)),
  windowSeconds: fc.constantFrom(1, 10, 60, 3600),
  name: trickyText,
});

describe("bucket keys", () => {
  test("of different buckets differ", () => {
    fc.assert(
      fc.property(named, named, (one, other) => {
        fc.pre(JSON.stringify(one) !== JSON.stringify(other));
        expect(keyOf(one)).not.toBe(keyOf(other));
      }),
      { numRuns: runs(2_000) },
    );
  });

  test("of one descriptor carry one hash tag: the first pair of braces holds domain and entries", () => {
    fc.assert(
      fc.property(named, (bucket) => {
        const key = keyOf(bucket);
        const other = keyOf({ ...bucket, name: "other", windowSeconds: 7 });
        const tag = /\{([^}]*)\}/.exec(key)?.[1];
        expect(tag).toBeDefined();
        expect(/\{([^}]*)\}/.exec(other)?.[1]).toBe(tag);
        expect(tag).toContain(domainKeyPrefix("", oneByteOf(bucket.domain)).slice(1));
      }),
    );
  });

  test("hold long values as hashes of a fixed length", () => {
    const long = entryKeyPart("path", "/".repeat(VALUE_BYTES_IN_KEY_MAX + 1));
    const longer = entryKeyPart("path", "/".repeat(60_000));
    expect(long).toMatch(/^\|path=%#[\w-]{43}$/);
    expect(longer).toMatch(/^\|path=%#[\w-]{43}$/);
    expect(long).not.toBe(longer);
    expect(entryKeyPart("k".repeat(60_000), "v")).toMatch(/^\|%#[\w-]{43}=v$/);
  });

  test("of the global limit belong to no descriptor", () => {
    const prefix = domainKeyPrefix("", "edge");
    const suffix = limitKeySuffix(Algorithm.slidingWindow, 1, "");
    expect(globalBucketKey(prefix, suffix)).toBe("{edge}|global|sw/1");
    expect(globalBucketKey(prefix, suffix)).not.toBe(prefix + suffix);
  });

  test("hash to 32 bits that spread", () => {
    const hashes = new Set(Array.from({ length: 10_000 }, (_, i) => hashBucketKey(`{edge|user=${i}}|tb/1`)));
    expect(hashes.size).toBeGreaterThan(9_990);
    expect([...hashes].every((hash) => Number.isInteger(hash) && hash >= 0 && hash < 2 ** 32)).toBe(true);
  });
});
