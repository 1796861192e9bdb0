// Rows that change hands are waited for, rows that one transaction keeps are not.

import fc from "fast-check";
import { expect, test } from "vitest";
import { TakeGroup } from "../../../../src/engine/domain/take.ts";
import { LockedKeys, Queue, UNKNOWN_HOLDER } from "../../../../src/stores/postgres/locked-keys.ts";
import { makeLimit } from "../../../support/builders.ts";
import { runs } from "../../../support/runs.ts";

const HELD_US = 5_000;
const limit = makeLimit();

function groupOf(keys: readonly string[]): TakeGroup {
  const group = new TakeGroup();
  for (const key of keys) group.add(limit).bucketKey = key;
  return group;
}

const queueOf = (locked: LockedKeys, keys: readonly string[], nowUs: number) => locked.queueOf(groupOf(keys), nowUs);

/** A group of this key alone is passed over. */
const passedOver = (locked: LockedKeys, key: string, holder: number, nowUs: number) =>
  locked.passedOver(groupOf([key]), key, holder, nowUs);

test("a group goes the way of its worst key, for as long as that was seen held lately", () => {
  const locked = new LockedKeys(HELD_US);
  expect(queueOf(locked, ["a", "b"], 0)).toBe(Queue.free);
  expect(passedOver(locked, "a", 7, 0)).toBe(Queue.contended);
  expect([queueOf(locked, ["a", "b"], 1), queueOf(locked, ["b"], 1)]).toEqual([Queue.contended, Queue.free]);
  expect(passedOver(locked, "a", 7, HELD_US)).toBeUndefined();
  expect(queueOf(locked, ["b", "a"], HELD_US)).toBe(Queue.held);
  expect(passedOver(locked, "a", 8, HELD_US + 1)).toBe(Queue.contended);
  expect(queueOf(locked, ["a"], HELD_US + 2)).toBe(Queue.contended);
  expect(queueOf(locked, ["a"], 1_000_000)).toBe(Queue.free);
});

test("no group fails unless one transaction was seen with its row for that long, whatever else is held", () => {
  const look = fc.record({
    key: fc.constantFrom("a", "b", "c"),
    holder: fc.nat({ max: 3 }),
    afterUs: fc.nat({ max: 3_000 }),
  });
  fc.assert(
    fc.property(fc.array(look, { maxLength: 60 }), (looks) => {
      const locked = new LockedKeys(HELD_US);
      const seen = new Map<string, { holder: number; sinceUs: number }>();
      let nowUs = 0;
      for (const { key, holder, afterUs } of looks) {
        nowUs += afterUs;
        if (seen.get(key)?.holder !== holder) seen.set(key, { holder, sinceUs: nowUs });
        const heldUs = nowUs - (seen.get(key)?.sinceUs ?? nowUs);
        const isGivenUp = passedOver(locked, key, holder, nowUs) === undefined;
        expect(isGivenUp).toBe(holder !== 0 && heldUs >= HELD_US);
      }
    }),
    { numRuns: runs(300) },
  );
});

test("no group waits in a queue better than that of its worst key, nor is one sent on a row that is closed", () => {
  const look = fc.record({
    keys: fc.uniqueArray(fc.constantFrom("a", "b", "c", "d"), { minLength: 1 }),
    holder: fc.integer({ min: UNKNOWN_HOLDER, max: 3 }),
    afterUs: fc.nat({ max: 6_000 }),
  });
  fc.assert(
    fc.property(fc.array(look, { maxLength: 60 }), (looks) => {
      const locked = new LockedKeys(HELD_US);
      let nowUs = 0;
      for (const { keys, holder, afterUs } of looks) {
        nowUs += afterUs;
        const queue = locked.passedOver(groupOf(keys), keys[0] ?? "", holder, nowUs);
        const worst = Math.max(...keys.map((key) => queueOf(locked, [key], nowUs)));
        if (queue !== undefined) expect(queue).toBe(worst);
        if (worst === Queue.closed) expect(queue).toBeUndefined();
      }
    }),
    { numRuns: runs(300) },
  );
});

test("a row that is made and not committed is waited for once, then not asked for, and looked at again later", () => {
  const locked = new LockedKeys(HELD_US);
  expect(passedOver(locked, "a", UNKNOWN_HOLDER, 0)).toBe(Queue.contended);
  expect(passedOver(locked, "a", UNKNOWN_HOLDER, HELD_US / 2 - 1)).toBe(Queue.contended);
  expect(passedOver(locked, "a", UNKNOWN_HOLDER, HELD_US / 2)).toBeUndefined();
  expect([queueOf(locked, ["b", "a"], HELD_US), queueOf(locked, ["b"], HELD_US)]).toEqual([Queue.closed, Queue.free]);
  const againUs = HELD_US / 2 + 10 * HELD_US;
  expect(queueOf(locked, ["a"], againUs)).toBe(Queue.free);
  // Another one, for all that is known.
  expect(passedOver(locked, "a", UNKNOWN_HOLDER, againUs)).toBe(Queue.contended);
  expect(passedOver(locked, "a", 7, againUs + HELD_US)).toBe(Queue.contended);
});

test("no more keys are remembered than a thousand", () => {
  const locked = new LockedKeys(HELD_US);
  for (let i = 0; i <= 1_000; i++) passedOver(locked, `k${i}`, 7, 0);
  expect([queueOf(locked, ["k0"], 1), queueOf(locked, ["k1"], 1)]).toEqual([Queue.free, Queue.contended]);
});
