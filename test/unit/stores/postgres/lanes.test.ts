// Rows that change hands are waited for, rows that one transaction keeps are not.

import fc from "fast-check";
import { expect, test } from "vitest";
import { TakeGroup } from "../../../../src/engine/domain/take.ts";
import { Lane, Lanes, UNKNOWN_HOLDER } from "../../../../src/stores/postgres/lanes.ts";
import { makeLimit } from "../../../support/builders.ts";
import { runs } from "../../../support/runs.ts";

const HELD_US = 5_000;
const limit = makeLimit();

function groupOf(keys: readonly string[]): TakeGroup {
  const group = new TakeGroup();
  for (const key of keys) group.add(limit).bucketKey = key;
  return group;
}

const laneOf = (lanes: Lanes, keys: readonly string[], nowUs: number) => lanes.laneOf(groupOf(keys), nowUs);

/** A group of this key alone is passed over. */
const passedOver = (lanes: Lanes, key: string, holder: number, nowUs: number) =>
  lanes.passedOver(groupOf([key]), key, holder, nowUs);

test("a group goes the way of its worst key, for as long as that was seen held lately", () => {
  const lanes = new Lanes(HELD_US);
  expect(laneOf(lanes, ["a", "b"], 0)).toBe(Lane.free);
  expect(passedOver(lanes, "a", 7, 0)).toBe(Lane.contended);
  expect([laneOf(lanes, ["a", "b"], 1), laneOf(lanes, ["b"], 1)]).toEqual([Lane.contended, Lane.free]);
  expect(passedOver(lanes, "a", 7, HELD_US)).toBeUndefined();
  expect(laneOf(lanes, ["b", "a"], HELD_US)).toBe(Lane.held);
  expect(passedOver(lanes, "a", 8, HELD_US + 1)).toBe(Lane.contended);
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
        const isGivenUp = passedOver(lanes, key, holder, nowUs) === undefined;
        expect(isGivenUp).toBe(holder !== 0 && heldUs >= HELD_US);
      }
    }),
    { numRuns: runs(300) },
  );
});

test("a group whose other row is held for long does not wait for that one while it holds this one", () => {
  const group = groupOf(["kept", "global"]);
  const lanes = new Lanes(HELD_US);
  passedOver(lanes, "kept", 7, 0);
  passedOver(lanes, "kept", 7, HELD_US);
  expect(lanes.passedOver(group, "global", 8, HELD_US + 1)).toBe(Lane.held);
  expect(lanes.passedOver(groupOf(["global", "own"]), "global", 9, HELD_US + 2)).toBe(Lane.contended);
  passedOver(lanes, "made", UNKNOWN_HOLDER, HELD_US);
  passedOver(lanes, "made", UNKNOWN_HOLDER, 2 * HELD_US);
  expect(lanes.passedOver(groupOf(["made", "global"]), "global", 10, 2 * HELD_US)).toBeUndefined();
});

test("no group waits in a lane better than that of its worst key, nor is one sent on a row that is closed", () => {
  const look = fc.record({
    keys: fc.uniqueArray(fc.constantFrom("a", "b", "c", "d"), { minLength: 1 }),
    holder: fc.integer({ min: UNKNOWN_HOLDER, max: 3 }),
    afterUs: fc.nat({ max: 6_000 }),
  });
  fc.assert(
    fc.property(fc.array(look, { maxLength: 60 }), (looks) => {
      const lanes = new Lanes(HELD_US);
      let nowUs = 0;
      for (const { keys, holder, afterUs } of looks) {
        nowUs += afterUs;
        const lane = lanes.passedOver(groupOf(keys), keys[0] ?? "", holder, nowUs);
        const worst = Math.max(...keys.map((key) => laneOf(lanes, [key], nowUs)));
        if (lane !== undefined) expect(lane).toBe(worst);
        if (worst === Lane.closed) expect(lane).toBeUndefined();
      }
    }),
    { numRuns: runs(300) },
  );
});

test("a row that is made and not committed is waited for once, then not asked for, and looked at again later", () => {
  const lanes = new Lanes(HELD_US);
  expect(passedOver(lanes, "a", UNKNOWN_HOLDER, 0)).toBe(Lane.contended);
  expect(passedOver(lanes, "a", UNKNOWN_HOLDER, HELD_US / 2 - 1)).toBe(Lane.contended);
  expect(passedOver(lanes, "a", UNKNOWN_HOLDER, HELD_US / 2)).toBeUndefined();
  expect([laneOf(lanes, ["b", "a"], HELD_US), laneOf(lanes, ["b"], HELD_US)]).toEqual([Lane.closed, Lane.free]);
  const againUs = HELD_US / 2 + 10 * HELD_US;
  expect(laneOf(lanes, ["a"], againUs)).toBe(Lane.free);
  // Another one, for all that is known.
  expect(passedOver(lanes, "a", UNKNOWN_HOLDER, againUs)).toBe(Lane.contended);
  expect(passedOver(lanes, "a", 7, againUs + HELD_US)).toBe(Lane.contended);
});

test("who looks again holds up others for a tenth of the time at most", () => {
  const lanes = new Lanes(100_000);
  passedOver(lanes, "a", UNKNOWN_HOLDER, 0);
  passedOver(lanes, "a", UNKNOWN_HOLDER, 100_000);
  expect(laneOf(lanes, ["a"], 1_099_999)).toBe(Lane.closed);
});

test("no more keys are remembered than a thousand", () => {
  const lanes = new Lanes(HELD_US);
  for (let i = 0; i <= 1_000; i++) passedOver(lanes, `k${i}`, 7, 0);
  expect([laneOf(lanes, ["k0"], 1), laneOf(lanes, ["k1"], 1)]).toEqual([Lane.free, Lane.contended]);
});
