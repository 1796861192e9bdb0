// How both clock-aligned windows turn.

import { describe, expect, test } from "vitest";
import { fixedWindow, windowStartUs } from "../../../src/engine/algorithms/fixed-window.ts";
import { slidingWindow } from "../../../src/engine/algorithms/sliding-window.ts";
import { BucketState } from "../../../src/engine/algorithms/working-bucket.ts";
import { Algorithm } from "../../../src/engine/domain/limit.ts";
import { makeLimit } from "../../support/builders.ts";

const START_US = 1_767_225_600_000_000;
const MINUTE_US = 60_000_000;
const limit = makeLimit({ algorithm: Algorithm.slidingWindow, windowSeconds: 60 });

function turned(step: typeof slidingWindow, passedUs: number) {
  const state = Object.assign(new BucketState(), { atUs: START_US, used: 7, previous: 3 });
  const isRedated = step.advance(state, limit, START_US + passedUs);
  return { isRedated, startUs: state.atUs - START_US, used: state.used, previous: state.previous };
}

describe("windows", () => {
  test("begin at whole windows since the epoch", () => {
    expect(windowStartUs(limit, START_US + 59_999_999)).toBe(START_US);
    expect(windowStartUs(makeLimit({ windowSeconds: 7 }), 20_999_999)).toBe(14_000_000);
  });

  test.each([
    { name: "stays in its window", passedUs: MINUTE_US - 1, startUs: 0, used: 7, previous: 3 },
    { name: "turns to the next", passedUs: MINUTE_US, startUs: MINUTE_US, used: 0, previous: 7 },
    { name: "forgets all after two", passedUs: 2 * MINUTE_US, startUs: 2 * MINUTE_US, used: 0, previous: 0 },
    { name: "stays when time steps back a little", passedUs: -10_000_000, startUs: 0, used: 7, previous: 3 },
    { name: "is dated now when it steps back far", passedUs: -10_000_001, startUs: -MINUTE_US, used: 7, previous: 3 },
  ])("a sliding window $name", ({ passedUs, startUs, used, previous }) => {
    expect(turned(slidingWindow, passedUs)).toEqual({ startUs, used, previous, isRedated: passedUs < -10_000_000 });
  });

  test.each([
    { name: "stays in its window", passedUs: MINUTE_US - 1, startUs: 0, used: 7 },
    { name: "turns to the next", passedUs: MINUTE_US, startUs: MINUTE_US, used: 0 },
    { name: "stays when time steps back a little", passedUs: -10_000_000, startUs: 0, used: 7 },
    { name: "is dated now when it steps back far", passedUs: -10_000_001, startUs: -MINUTE_US, used: 7 },
  ])("a fixed window $name", ({ passedUs, startUs, used }) => {
    expect(turned(fixedWindow, passedUs)).toMatchObject({ startUs, used, isRedated: passedUs < -10_000_000 });
  });
});
