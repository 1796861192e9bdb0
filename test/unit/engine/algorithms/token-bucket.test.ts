// How a token bucket works off its debt. What it answers is in the contract of the algorithms.

import { describe, expect, test } from "vitest";
import { AMOUNT_MAX } from "../../../../src/base/units.ts";
import { tokenBucket } from "../../../../src/engine/algorithms/token-bucket.ts";
import { BucketState } from "../../../../src/engine/algorithms/working-bucket.ts";
import { makeLimit } from "../../../support/builders.ts";

const NOW_US = 1_767_225_600_000_000;

function stateOf(used: number, atUs = NOW_US): BucketState {
  return Object.assign(new BucketState(), { used, atUs });
}

describe("token bucket", () => {
  test("works off the largest debt over the longest time without passing 2^53", () => {
    const largest = makeLimit({ amount: AMOUNT_MAX, burst: AMOUNT_MAX, debtMax: AMOUNT_MAX });
    const state = stateOf(AMOUNT_MAX * 1_000_000, 0);
    tokenBucket.advance(state, largest, NOW_US);
    expect([state.used, state.atUs]).toEqual([0, NOW_US]);
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
