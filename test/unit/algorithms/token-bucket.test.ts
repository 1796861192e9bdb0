// How a token bucket works off its debt. What it answers is in the contract of the algorithms.

import { describe, expect, test } from "vitest";
import { tokenBucket } from "../../../src/engine/algorithms/token-bucket.ts";
import { BucketState } from "../../../src/engine/algorithms/working-bucket.ts";
import { AMOUNT_MAX } from "../../../src/engine/base/units.ts";
import { makeLimit } from "../../support/builders.ts";

const NOW_US = 1_767_225_600_000_000;

function stateOf(used: number, atUs = NOW_US): BucketState {
  return Object.assign(new BucketState(), { used, atUs });
}

describe("token bucket", () => {
  const limit = makeLimit({ amount: 3, burst: 3, windowSeconds: 7 });

  // A token returns in 7/3 seconds, so a millionth of one in 7/3 microseconds.
  test.each([
    { name: "no whole tick", passedUs: 6, used: 3_000_000, atUs: 0 },
    { name: "one tick", passedUs: 7, used: 2_999_997, atUs: 7 },
    { name: "ticks and a part of one, which stays", passedUs: 40, used: 2_999_985, atUs: 35 },
    { name: "all but the last tick", passedUs: 6_999_999, used: 3, atUs: 6_999_993 },
    { name: "enough to be full", passedUs: 7_000_001, used: 0, atUs: 7_000_001 },
  ])("works off $name", ({ passedUs, used, atUs }) => {
    const state = stateOf(3_000_000);
    expect(tokenBucket.advance(state, limit, NOW_US + passedUs)).toBe(false);
    expect([state.used, state.atUs - NOW_US]).toEqual([used, atUs]);
  });

  test("works off the largest debt over the longest time without passing 2^53", () => {
    const largest = makeLimit({ amount: AMOUNT_MAX, burst: AMOUNT_MAX, debtMax: AMOUNT_MAX });
    const state = stateOf(AMOUNT_MAX * 1_000_000, 0);
    tokenBucket.advance(state, largest, NOW_US);
    expect([state.used, state.atUs]).toEqual([0, NOW_US]);
  });

  test.each([
    { name: "within a window stays where it is", aheadUs: 7_000_000, isRedated: false },
    { name: "beyond a window counts as dated now", aheadUs: 7_000_001, isRedated: true },
  ])("a state dated later $name", ({ aheadUs, isRedated }) => {
    const state = stateOf(3_000_000, NOW_US + aheadUs);
    expect(tokenBucket.advance(state, limit, NOW_US)).toBe(isRedated);
    expect([state.used, state.atUs]).toEqual([3_000_000, isRedated ? NOW_US : NOW_US + aheadUs]);
  });

  test("never refills without an amount", () => {
    const dry = makeLimit({ amount: 0, burst: 5 });
    const state = stateOf(5_000_000);
    tokenBucket.advance(state, dry, NOW_US + 86_400_000_000);
    const answer = { outcome: 0 as const, waitUs: 0, remaining: 0, resetUs: 0 };
    tokenBucket.judge(state, dry, 1, NOW_US + 86_400_000_000, answer);
    tokenBucket.report(state, dry, NOW_US + 86_400_000_000, answer);
    expect(answer).toEqual({ outcome: 2, waitUs: 1_000_000, remaining: 0, resetUs: 1_000_000 });
  });
});
