// Where the memory store finds its buckets, and which it lets go.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { tokenBucket } from "../../../../src/engine/algorithms/token-bucket.ts";
import { WorkingBucket } from "../../../../src/engine/algorithms/working-bucket.ts";
import { type KeyHash, keyedOf } from "../../../../src/engine/domain/key-bytes.ts";
import { Algorithm } from "../../../../src/engine/domain/limit.ts";
import { Buckets, LOG_BLOCK_BYTES } from "../../../../src/stores/memory/buckets.ts";
import { runs } from "../../../support/runs.ts";

/** What the hash of a key is made to be in place of its own. */
type Weaken = (hash: KeyHash) => void;

const asItIs: Weaken = () => undefined;
/** All that picks the chain is the same for all keys: only the other half of the hash tells them apart. */
const samePlace: Weaken = (hash) => Object.assign(hash, { keyHash: 0x9abc_def0, keyHash1: 0x1234_5678 });

function bucketOf(_buckets: Buckets, key: string, weaken = asItIs): WorkingBucket {
  const bucket = new WorkingBucket(tokenBucket);
  bucket.useKeyOf(keyedOf(key));
  weaken(bucket);
  return bucket;
}

/** Keeps `used` under the key. */
function keep(buckets: Buckets, key: string, used: number, expiresS: number, weaken?: Weaken): void {
  const bucket = bucketOf(buckets, key, weaken);
  buckets.load(bucket);
  bucket.state.used = used;
  buckets.save(bucket, expiresS * 1_000_000);
}

/** What is kept under the key; undefined if nothing. */
function find(buckets: Buckets, key: string, weaken?: Weaken): number | undefined {
  const bucket = bucketOf(buckets, key, weaken);
  return buckets.load(bucket) ? bucket.state.used : undefined;
}

function bucketsOf(bucketsMax: number, logBytesMax = 1_000_000) {
  let evicted = 0;
  const onEvicted = (count: number) => {
    evicted += count;
  };
  return { buckets: new Buckets({ bucketsMax, logBytesMax, onEvicted }), evicted: () => evicted };
}

describe("buckets", () => {
  const weakened = fc.constantFrom<Weaken>(
    asItIs,
    samePlace,
    // Few chains for many keys.
    (hash) => Object.assign(hash, { keyHash: (hash.keyHash % 3) * 0x5555_5555, keyHash1: (hash.keyHash1 & 1) - 1 }),
  );

  test("are found under their own key whatever comes and goes", () => {
    const change = fc.record({ key: fc.nat({ max: 300 }), used: fc.nat(), isRemoved: fc.boolean() });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 600 }), weakened, (changes, weaken) => {
        const { buckets } = bucketsOf(100_000);
        const known = new Map<string, number>();
        for (const { key, used, isRemoved } of changes) {
          const name = `key-${key}`;
          if (isRemoved) {
            const bucket = bucketOf(buckets, name, weaken);
            buckets.load(bucket);
            buckets.remove(bucket);
            known.delete(name);
          } else {
            keep(buckets, name, used, 9_999, weaken);
            known.set(name, used);
          }
        }
        const found = Array.from({ length: 301 }, (_, i) => find(buckets, `key-${i}`, weaken));
        expect(found).toEqual(Array.from({ length: 301 }, (_, i) => known.get(`key-${i}`)));
        expect(buckets.count).toBe(known.size);
      }),
      { numRuns: runs(60) },
    );
  });

  // Promise(input): In memory, keys share a bucket only if all 128 bits of their hashes are equal; among three million none do.
  test.each([
    { word: "keyHash2" as const },
    { word: "keyHash3" as const },
    { word: "keyHash" as const },
    { word: "keyHash1" as const },
  ])("are distinguished by every bit of $word alone", ({ word }) => {
    const { buckets } = bucketsOf(100_000);
    const bit = (i: number): Weaken => {
      return (hash) => {
        Object.assign(hash, { keyHash: 0, keyHash1: 0, keyHash2: 0, keyHash3: 0 });
        hash[word] = word === "keyHash" ? (1 << i) >>> 0 : 1 << i;
      };
    };
    for (let i = 0; i < 32; i++) keep(buckets, "", i, 9_999, bit(i));
    expect(Array.from({ length: 32 }, (_, i) => find(buckets, "", bit(i)))).toEqual(
      Array.from({ length: 32 }, (_, i) => i),
    );
  });

  test("keep their numbers while a hundred thousand others come", () => {
    const { buckets, evicted } = bucketsOf(100_000);
    for (let i = 0; i < 100_000; i++) {
      keep(buckets, `user-${i}`, i, 9_999);
    }
    const wrong = Array.from({ length: 100_000 }, (_, i) => i).filter((i) => find(buckets, `user-${i}`) !== i);
    expect([wrong, buckets.count, evicted()]).toEqual([[], 100_000, 0]);
  });

  test("never number more than allowed; one that is full soonest goes, and is counted", () => {
    const { buckets, evicted } = bucketsOf(1_000);
    for (let i = 0; i < 1_000; i++) keep(buckets, `owing-${i}`, 1, 5_000);
    for (let i = 0; i < 20_000; i++) {
      keep(buckets, `flood-${i}`, 1, 10);
    }
    expect(buckets.count).toBe(1_000);
    expect(evicted()).toBe(20_000);
    const left = Array.from({ length: 1_000 }, (_, i) => find(buckets, `owing-${i}`)).filter((used) => used === 1);
    expect(left.length).toBeGreaterThan(850);
  });

  test("that have expired go first and uncounted, wherever the sweep is", () => {
    for (let expired = 0; expired < 8; expired++) {
      const { buckets, evicted } = bucketsOf(8);
      for (let i = 0; i < 8; i++) keep(buckets, `user-${i}`, 1, i === expired ? 10 : 5_000);
      buckets.nowS = 10;
      keep(buckets, "new", 1, 5_000);
      expect([buckets.count, evicted(), find(buckets, `user-${expired}`)]).toEqual([8, 0, undefined]);
    }
  });

  // Promise(input): BUCKETS_MAX buckets have room whatever their keys, and no more.
  test.each([16_384, 100_000, 1_000_000])("%i have room, and no more", (bucketsMax) => {
    const { buckets, evicted } = bucketsOf(bucketsMax);
    const key: KeyHash = keyedOf("");
    const record = { ...key, atUs: 1, used: 1, previous: 0, expiresS: 9_999, log: 0 };
    let random = 1;
    const next = () => (random = (Math.imul(random, 1_664_525) + 1_013_904_223) | 0);
    const add = () => {
      Object.assign(record, { keyHash: next() >>> 0, keyHash1: next(), keyHash2: next(), keyHash3: next() });
      buckets.writeRecord(record, undefined);
    };
    for (let i = 0; i < bucketsMax; i++) add();
    expect([buckets.count, evicted()]).toEqual([bucketsMax, 0]);
    expect(buckets.bytes).toBeLessThanOrEqual(60 * bucketsMax);
    for (let i = 0; i < 1_000; i++) add();
    expect([buckets.count, evicted()]).toEqual([bucketsMax, 1_000]);
  });

  test("are swept once they have expired, a bounded number at a time", () => {
    const { buckets } = bucketsOf(10_000);
    for (let i = 0; i < 500; i++) keep(buckets, `user-${i}`, 1, i < 250 ? 10 : 20);
    buckets.sweep(5_000, 9);
    expect(buckets.count).toBe(500);
    buckets.sweep(100, 10);
    expect(buckets.count).toBeGreaterThanOrEqual(400);
    buckets.sweep(5_000, 10);
    expect(buckets.count).toBe(250);
    buckets.sweep(5_000, 20);
    expect(buckets.count).toBe(0);
  });

  test("that were dropped since they were loaded are saved under their own key", () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 2_000 }), { maxLength: 800 }), weakened, (others, weaken) => {
        const { buckets } = bucketsOf(10_000);
        keep(buckets, "mine", 2, 10, weaken);
        const mine = bucketOf(buckets, "mine", weaken);
        buckets.load(mine);
        buckets.sweep(5_000, 10);
        // One of these gets the record that was freed.
        for (const other of new Set(others)) keep(buckets, `other-${other}`, other, 9_999, weaken);
        mine.state.used = 22;
        buckets.save(mine, 9_999_000_000);
        expect(find(buckets, "mine", weaken)).toBe(22);
        for (const other of new Set(others)) expect(find(buckets, `other-${other}`, weaken)).toBe(other);
      }),
      { numRuns: runs(40) },
    );
  });

  test("tell logs from numbers", () => {
    const { buckets } = bucketsOf(10_000);
    const asLog = () => Object.assign(bucketOf(buckets, "key"), { algorithm: Algorithm.slidingLog });
    const saved = asLog();
    const log = saved.useLog();
    log.clear(5);
    log.add(3);
    buckets.load(saved);
    buckets.save(saved, 9_999_000_000);
    const loaded = asLog();
    expect([buckets.load(loaded), loaded.log?.total]).toEqual([true, 3]);
    expect(find(buckets, "key")).toBeUndefined();
    keep(buckets, "key", 5, 9_999);
    expect([find(buckets, "key"), buckets.load(asLog()), buckets.count]).toEqual([5, false, 1]);
    expect(buckets.logBytes).toBe(0);
  });

  test("that are dropped give the blocks of their logs back, and what was settled meanwhile is kept", () => {
    const { buckets } = bucketsOf(10_000);
    const paid = (cost: number) => {
      const bucket = Object.assign(bucketOf(buckets, "key"), { algorithm: Algorithm.slidingLog });
      if (buckets.load(bucket)) bucket.log?.advance(9, 0);
      else bucket.useLog().clear(9);
      bucket.log?.add(cost);
      return bucket;
    };
    const first = paid(3);
    buckets.save(first, 10_000_000);
    const second = paid(4);
    buckets.sweep(5_000, 10);
    expect([buckets.count, buckets.logBytes]).toEqual([0, 0]);
    buckets.save(second, 9_999_000_000);
    expect([paid(1).log?.total, buckets.count, buckets.logBytes]).toEqual([3 + 4 + 1, 1, 256]);
  });

  test("have a log grow by a block when it needs one, and only within its bytes", () => {
    const { buckets } = bucketsOf(10, 20 * LOG_BLOCK_BYTES);
    const logOf = (key: string) => {
      const bucket = Object.assign(bucketOf(buckets, key), { algorithm: Algorithm.slidingLog });
      if (!buckets.load(bucket)) bucket.useLog().clear(1);
      return { bucket, log: bucket.useLog() };
    };
    const used = [];
    for (let atUs = 1; ; atUs++) {
      const { bucket, log } = logOf("key");
      log.advance(atUs, 0);
      if (!buckets.hasRoomForPayment(log)) break;
      log.add(1);
      buckets.save(bucket, 9_999_000_000);
      used.push(buckets.logBytes / LOG_BLOCK_BYTES);
    }
    expect(used).toEqual(Array.from({ length: 309 }, (_, i) => Math.ceil((1 + 2 * (i + 1)) / 31)));
    const { log } = logOf("other");
    expect(buckets.hasRoomForPayment(log)).toBe(false);
    log.add(1);
    expect(buckets.hasRoomForPayment(log)).toBe(true);
  });
});
