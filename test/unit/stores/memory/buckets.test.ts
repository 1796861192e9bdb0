// Where the memory store finds its buckets, and which it lets go.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { WorkingBucket } from "../../../../src/algorithms/bucket-access.ts";
import { LogState } from "../../../../src/algorithms/log-state.ts";
import { Algorithm } from "../../../../src/core/limit.ts";
import { hashBucketKey } from "../../../../src/rules/bucket-key.ts";
import { Buckets } from "../../../../src/stores/memory/buckets.ts";
import { PROBE_MAX } from "../../../../src/stores/memory/key-table.ts";
import { runs } from "../../../support/runs.ts";

function bucketOf(key: string, keyHash = hashBucketKey(key)): WorkingBucket {
  const bucket = new WorkingBucket();
  bucket.bucketKey = key;
  bucket.keyHash = keyHash;
  bucket.needKeyBytes();
  return bucket;
}

/** Keeps `used` under the key. */
function keep(buckets: Buckets, key: string, used: number, expiresS: number, keyHash?: number): void {
  const bucket = bucketOf(key, keyHash);
  buckets.load(bucket);
  bucket.state.used = used;
  buckets.save(bucket, expiresS * 1_000_000);
}

/** What is kept under the key; undefined if nothing. */
function find(buckets: Buckets, key: string, keyHash?: number): number | undefined {
  const bucket = bucketOf(key, keyHash);
  return buckets.load(bucket) ? bucket.state.used : undefined;
}

function bucketsOf(bucketsMax: number) {
  const evicted: number[] = [];
  return { buckets: new Buckets(bucketsMax, (count) => evicted.push(count)), evicted };
}

describe("buckets", () => {
  test("are found under their own key whatever comes and goes", () => {
    const change = fc.record({ key: fc.nat({ max: 300 }), used: fc.nat(), isRemoved: fc.boolean() });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 600 }), fc.constantFrom(1, 7, 1_000_003), (changes, spreadOf) => {
        const { buckets } = bucketsOf(10_000);
        const known = new Map<string, number>();
        // Few hashes for many keys, so that probes run into each other.
        const hashOf = (key: string) => (hashBucketKey(key) % spreadOf) >>> 0;
        for (const { key, used, isRemoved } of changes) {
          const name = `key-${key}`;
          if (isRemoved) {
            const bucket = bucketOf(name, hashOf(name));
            buckets.load(bucket);
            buckets.remove(bucket);
            known.delete(name);
          } else {
            keep(buckets, name, used, 9_999, hashOf(name));
            known.set(name, used);
          }
        }
        const crowded = known.size > PROBE_MAX && spreadOf < 8;
        fc.pre(!crowded);
        const found = Array.from({ length: 301 }, (_, i) => find(buckets, `key-${i}`, hashOf(`key-${i}`)));
        expect(found).toEqual(Array.from({ length: 301 }, (_, i) => known.get(`key-${i}`)));
        expect(buckets.count).toBe(known.size);
      }),
      { numRuns: runs(60) },
    );
  });

  test("keep their numbers while a hundred thousand others come", () => {
    const { buckets, evicted } = bucketsOf(1_000_000);
    for (let i = 0; i < 100_000; i++) keep(buckets, `user-${i}`, i, 9_999);
    const wrong = Array.from({ length: 100_000 }, (_, i) => i).filter((i) => find(buckets, `user-${i}`) !== i);
    expect([wrong, buckets.count, evicted]).toEqual([[], 100_000, []]);
  });

  test("never number more than allowed; one that is as new soonest goes, and is counted", () => {
    const { buckets, evicted } = bucketsOf(1_000);
    for (let i = 0; i < 1_000; i++) keep(buckets, `owing-${i}`, 1, 5_000);
    for (let i = 0; i < 20_000; i++) keep(buckets, `flood-${i}`, 1, 10);
    expect(buckets.count).toBe(1_000);
    expect(evicted).toHaveLength(20_000);
    const left = Array.from({ length: 1_000 }, (_, i) => find(buckets, `owing-${i}`)).filter((used) => used === 1);
    expect(left.length).toBeGreaterThan(850);
  });

  test("that have expired go uncounted when room is wanted", () => {
    const { buckets, evicted } = bucketsOf(1_000);
    for (let i = 0; i < 1_000; i++) keep(buckets, `old-${i}`, 1, 10);
    buckets.nowS = 10;
    for (let i = 0; i < 1_000; i++) keep(buckets, `new-${i}`, 1, 5_000);
    expect([buckets.count <= 1_000, evicted]).toEqual([true, []]);
  });

  test("that have expired go first and uncounted, wherever the sweep stands", () => {
    for (let expired = 0; expired < 8; expired++) {
      const { buckets, evicted } = bucketsOf(8);
      for (let i = 0; i < 8; i++) keep(buckets, `user-${i}`, 1, i === expired ? 10 : 5_000);
      buckets.nowS = 10;
      keep(buckets, "new", 1, 5_000);
      expect([buckets.count, evicted, find(buckets, `user-${expired}`)]).toEqual([8, [], undefined]);
    }
  });

  test("whose keys all collide evict each other and cost no long search", () => {
    const { buckets, evicted } = bucketsOf(100_000);
    for (let i = 0; i < 5_000; i++) keep(buckets, `colliding-${i}`, i, 100 + i, 12_345);
    expect(buckets.count).toBe(PROBE_MAX);
    expect(evicted).toHaveLength(5_000 - PROBE_MAX);
    expect(find(buckets, "colliding-4999", 12_345)).toBe(4_999);
    for (let i = 0; i < 1_000; i++) keep(buckets, `other-${i}`, i, 9_999);
    expect(find(buckets, "other-0")).toBe(0);
  });

  test("are swept once they have expired, a bounded number at a time", () => {
    const { buckets } = bucketsOf(10_000);
    for (let i = 0; i < 500; i++) keep(buckets, `user-${i}`, 1, i < 250 ? 10 : 20);
    buckets.sweep(100, 9);
    expect(buckets.count).toBe(500);
    buckets.sweep(100, 10);
    expect(buckets.count).toBeGreaterThanOrEqual(400);
    buckets.sweep(500, 10);
    expect(buckets.count).toBe(250);
    buckets.sweep(500, 20);
    expect(buckets.count).toBe(0);
  });

  test("that are gone leave their place to new ones", () => {
    const { buckets } = bucketsOf(100_000);
    for (let round = 0; round < 50; round++) {
      for (let i = 0; i < 1_000; i++) keep(buckets, `user-${round}-${i}`, round, 10);
      // Records of keys of another length stay, free, beside those of this round.
      buckets.sweep(5_000, 10);
    }
    expect(buckets.count).toBe(0);
  });

  test("that moved since they were loaded are saved under their own key", () => {
    const { buckets } = bucketsOf(10_000);
    keep(buckets, "first", 1, 10);
    const second = bucketOf("second");
    keep(buckets, "second", 2, 9_999);
    buckets.load(second);
    buckets.sweep(10, 10);
    keep(buckets, "third", 3, 9_999);
    second.state.used = 22;
    buckets.save(second, 9_999_000_000);
    expect([find(buckets, "first"), find(buckets, "second"), find(buckets, "third")]).toEqual([undefined, 22, 3]);
  });

  test("tell logs from numbers", () => {
    const { buckets } = bucketsOf(10_000);
    const asLog = () => Object.assign(bucketOf("key"), { algorithm: Algorithm.slidingLog });
    const saved = asLog();
    saved.log = new LogState();
    buckets.load(saved);
    buckets.save(saved, 9_999_000_000);
    const loaded = asLog();
    expect([buckets.load(loaded), loaded.log === saved.log]).toEqual([true, true]);
    expect(find(buckets, "key")).toBeUndefined();
    keep(buckets, "key", 5, 9_999);
    expect([find(buckets, "key"), buckets.load(asLog()), buckets.count]).toEqual([5, false, 1]);
  });
});
