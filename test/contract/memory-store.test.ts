// The memory store keeps the contracts of stores and of algorithms.

import { expect, test } from "vitest";
import { MICROS_PER_SECOND } from "../../src/base/units.ts";
import { Mode } from "../../src/engine/domain/take.ts";
import { makeLimit } from "../support/builders.ts";
import { describeEveryContract } from "./every.contract.ts";
import { memoryHarness } from "./memory-harness.ts";
import { groupOf, takeOf } from "./store-harness.ts";

describeEveryContract("memory store", () => memoryHarness());

// Redis drops a counter by its own clock, which no test moves.
test("a counter begins at 0 when its key comes again after its time, with a longer window of the same start", async () => {
  const harness = memoryHarness();
  const startUs = Math.ceil(harness.nowUs() / (60 * MICROS_PER_SECOND)) * 60 * MICROS_PER_SECOND;
  const counted = [];
  for (const [windowSeconds, secondsIn] of [
    [1, 0],
    [60, 3],
  ] as const) {
    const limit = { ...makeLimit({ algorithm: 2, isCounter: true, amount: 3, windowSeconds }), keySuffix: "" };
    const group = groupOf([{ limit, cost: 2, mode: Mode.pay }], "");
    harness.setUs(startUs + secondsIn * MICROS_PER_SECOND);
    await harness.settle(group);
    counted.push(takeOf(group, 0).count);
  }
  expect(counted).toEqual([2, 2]);
});
