// The local cache by itself: what it denies, what it learns, how large it grows.

import { expect, test } from "vitest";
import { MICROS_PER_SECOND } from "../../../../src/base/units.ts";
import { LocalCache } from "../../../../src/engine/counters/local-cache.ts";
import { Mode, Outcome, TakeGroup } from "../../../../src/engine/domain/take.ts";
import { makeLimit } from "../../../support/builders.ts";

const limit = makeLimit({ isCounter: true, windowSeconds: 60 });

function groupOf(...keys: string[]): TakeGroup {
  const group = new TakeGroup();
  for (const key of keys) {
    const take = group.add(limit);
    take.bucketKey = key;
    take.mode = Mode.pay;
    take.resetUs = 60 * MICROS_PER_SECOND;
  }
  return group;
}

function learnOver(cache: LocalCache, key: string, nowS = 0): void {
  const group = groupOf(key);
  for (const take of group.takes) take.outcome = Outcome.over;
  cache.learn(group, nowS);
}

test("counts what it looked up, found, and dropped", () => {
  const cache = new LocalCache(1);
  learnOver(cache, "over");
  cache.deny(groupOf("over", "other"));
  learnOver(cache, "later", 61);
  const { lookups, hits, expired, evicted, size } = cache;
  expect({ lookups, hits, expired, evicted, size }).toEqual({ lookups: 2, hits: 1, expired: 1, evicted: 0, size: 1 });
});

test("forgets a counter that was refunded", () => {
  const cache = new LocalCache(1);
  learnOver(cache, "over");
  const refund = groupOf("over");
  for (const take of refund.takes) take.mode = Mode.refund;
  cache.learn(refund, 0);
  expect(cache.deny(groupOf("over"))).toBe(false);
});

test("stays within its size, the oldest go first", () => {
  const cache = new LocalCache(1);
  for (let i = 0; i < 10_000; i++) learnOver(cache, `key-${i}`);
  expect(cache.size).toBeLessThan(524_288 / 100);
  expect(cache.deny(groupOf("key-9999"))).toBe(true);
  expect(cache.deny(groupOf("key-0"))).toBe(false);
});

test("counters of windows that have ended go as others come", () => {
  const cache = new LocalCache(1_000_000);
  for (let i = 0; i < 100; i++) learnOver(cache, `old-${i}`, 0);
  for (let i = 0; i < 50; i++) learnOver(cache, `new-${i}`, 61);
  expect(cache.size).toBe(50);
});
