// Rows that change hands are waited for, rows that one transaction keeps are not.

import fc from "fast-check";
import { expect, test } from "vitest";
import { TakeGroup } from "../../../../src/core/take.ts";
import { Lane, Lanes, UNKNOWN_HOLDER } from "../../../../src/stores/postgres/lanes.ts";
import { makeLimit } from "../../../support/builders.ts";
import { runs } from "../../../support/runs.ts";

const HELD_US = 5_000;
const limit = makeLimit();

function laneOf(lanes: Lanes, keys: readonly string[], nowUs: number): number {
  const group = new TakeGroup();
  for (const key of keys) group.add(limit).bucketKey = key;
  return lanes.laneOf(group, nowUs);
}

test("a group goes the way of its worst key, for as long as that was seen held lately", () => {
  const lanes = new Lanes(HELD_US);
  expect(laneOf(lanes, ["a", "b"], 0)).toBe(Lane.free);
  expect(lanes.passedOver("a", 7, 0)).toBe(Lane.contended);
  expect([laneOf(lanes, ["a", "b"], 1), laneOf(lanes, ["b"], 1)]).toEqual([Lane.contended, Lane.free]);
  expect(lanes.passedOver("a", 7, HELD_US)).toBeUndefined();
  expect(laneOf(lanes, ["b", "a"], HELD_US)).toBe(Lane.held);
  expect(lanes.passedOver("a", 8, HELD_US + 1)).toBe(Lane.contended);
  expect(laneOf(lanes, ["a"], HELD_US + 2)).toBe(Lane.contended);
  expect(laneOf(lanes, ["a"], 1_000_000)).toBe(Lane.free);
});

test("no group fails unless one transaction was seen with its row for that long, whatever else is held", () => {
  const look = fc.record({
    key: fc.constantFrom("a", "b", "c"),
    holder: fc.nat({ max: 3 }),
    afterUs: fc.nat({ max: 3_000 }),
  });
  fc.assert(
    fc.property(fc.array(look, { maxLength: 60 }), (looks) => {
      const lanes = new Lanes(HELD_US);
      const seen = new Map<string, { holder: number; sinceUs: number }>();
      let nowUs = 0;
      for (const { key, holder, afterUs } of looks) {
        nowUs += afterUs;
        if (seen.get(key)?.holder !== holder) seen.set(key, { holder, sinceUs: nowUs });
        const heldUs = nowUs - (seen.get(key)?.sinceUs ?? nowUs);
        const isGivenUp = lanes.passedOver(key, holder, nowUs) === undefined;
        expect(isGivenUp).toBe(holder !== 0 && heldUs >= HELD_US);
      }
    }),
    { numRuns: runs(300) },
  );
});

test("a row that is made and not committed is waited for once, then not asked for, and looked at again later", () => {
  const lanes = new Lanes(HELD_US);
  expect(lanes.passedOver("a", UNKNOWN_HOLDER, 0)).toBe(Lane.contended);
  expect(lanes.passedOver("a", UNKNOWN_HOLDER, HELD_US / 2 - 1)).toBe(Lane.contended);
  expect(lanes.passedOver("a", UNKNOWN_HOLDER, HELD_US / 2)).toBeUndefined();
  expect([laneOf(lanes, ["b", "a"], HELD_US), laneOf(lanes, ["b"], HELD_US)]).toEqual([Lane.closed, Lane.free]);
  const againUs = HELD_US / 2 + 10 * HELD_US;
  expect(laneOf(lanes, ["a"], againUs)).toBe(Lane.free);
  // Another one, for all that is known.
  expect(lanes.passedOver("a", UNKNOWN_HOLDER, againUs)).toBe(Lane.contended);
  expect(lanes.passedOver("a", 7, againUs + HELD_US)).toBe(Lane.contended);
});

test("who looks again holds up others for a tenth of the time at most", () => {
  const lanes = new Lanes(100_000);
  lanes.passedOver("a", UNKNOWN_HOLDER, 0);
  lanes.passedOver("a", UNKNOWN_HOLDER, 100_000);
  expect(laneOf(lanes, ["a"], 1_099_999)).toBe(Lane.closed);
});

test("no more keys are remembered than a thousand", () => {
  const lanes = new Lanes(HELD_US);
  for (let i = 0; i <= 1_000; i++) lanes.passedOver(`k${i}`, 7, 0);
  expect([laneOf(lanes, ["k0"], 1), laneOf(lanes, ["k1"], 1)]).toEqual([Lane.free, Lane.contended]);
});
