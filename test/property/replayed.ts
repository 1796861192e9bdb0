// Histories that a test failed on once, and the turns of a window. They run first, before any that is generated.

import { AMOUNT_MAX } from "../../src/base/units.ts";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import { Kind, Mode } from "../../src/engine/domain/take.ts";
import type { History, HistoryStep, LimitNumbers } from "./histories.ts";

const START_US = 1_767_225_600_000_024;

function history(numbers: LimitNumbers, ...steps: (readonly [advanceUs: number, mode: Mode, cost: number])[]): History {
  return {
    startUs: START_US,
    limits: [numbers],
    steps: steps.map(([advanceUs, mode, cost]) => step(advanceUs, mode, cost)),
  };
}

function step(advanceUs: number, mode: Mode, cost: number, limit = 0): HistoryStep {
  const take = { limit, identity: "0", descriptor: 0, kind: Kind.ordinary, mode, cost };
  return { advanceUs, takes: [take], hasSpareQuota: false, isGivenBack: false };
}

const minute = { windowSeconds: 60, amount: 10, burst: 10, debtMax: 100 } as const;

export const REPLAYED_HISTORIES: readonly History[] = [
  // The first entry of a log was written to an array without room for it.
  history(
    { ...minute, algorithm: Algorithm.slidingLog },
    [0, Mode.pay, 4],
    [20_000_000, Mode.pay, 6],
    [1, Mode.pay, 1],
  ),
  // Post-paid hits that reach the largest debt in the middle of a token.
  history(
    { windowSeconds: 7, amount: 6, burst: 18, debtMax: 126, algorithm: Algorithm.tokenBucket },
    [0, Mode.pay, 1],
    [7, Mode.postPaid, 4_294_967_295],
    [7, Mode.peek, 1],
  ),
  // A refund that empties the current window and reaches into the previous one.
  history(
    { ...minute, algorithm: Algorithm.slidingWindow },
    [0, Mode.pay, 8],
    [60_000_000, Mode.pay, 2],
    [1, Mode.refund, 5],
    [59, Mode.pay, 5],
  ),
  history(
    { ...minute, algorithm: Algorithm.fixedWindow },
    [59_999_975, Mode.pay, 10],
    [1, Mode.pay, 10],
    [59_999_999, Mode.pay, 1],
    [1, Mode.pay, 1],
  ),
];

const heldMinute = { algorithm: Algorithm.tokenBucket, windowSeconds: 60, holdSeconds: 1 };
const HELD_EDITS = [
  { ...heldMinute, amount: 0, burst: 0, debtMax: 0 },
  { ...heldMinute, amount: 1, burst: 2, debtMax: 2 },
  { ...heldMinute, amount: 1, burst: 1, debtMax: 8 },
];

const heldLong = {
  algorithm: Algorithm.tokenBucket,
  windowSeconds: 9_614_490,
  holdSeconds: 27_035,
  amount: 10,
  debtMax: 200,
};

const HELD_TAKE = { identity: "0", descriptor: 0, kind: Kind.ordinary, mode: Mode.pay, cost: 1, holdId: "a" };

function held(...takes: readonly [limit: number, mode: Mode, cost: number][]): HistoryStep {
  return {
    advanceUs: 0,
    takes: takes.map(([limit, mode, cost], descriptor) => {
      return { ...HELD_TAKE, limit, descriptor, mode, cost };
    }),
    hasSpareQuota: false,
    isGivenBack: false,
  };
}

/** The same for histories of several limits that share a bucket, as edited rules do. */
export const REPLAYED_EDITS: readonly History[] = [
  // A debt that a rule of a few tokens a day would pay off in longer than 2^63 microseconds.
  {
    startUs: START_US,
    limits: [
      { algorithm: Algorithm.tokenBucket, amount: 5, burst: 15, windowSeconds: 86_400, debtMax: 60 },
      {
        algorithm: Algorithm.tokenBucket,
        amount: AMOUNT_MAX,
        burst: AMOUNT_MAX,
        windowSeconds: 86_400,
        debtMax: AMOUNT_MAX,
      },
    ],
    steps: [step(0, Mode.pay, 533_759_956, 1), step(0, Mode.postPaid, 1, 0)],
  },
  // A peek comes before the payment by which a bucket with holds is opened; and two payments by limits that differ, one after the other.
  {
    startUs: START_US,
    limits: HELD_EDITS,
    steps: [
      held([1, Mode.pay, 2]),
      { ...held([0, Mode.peek, 1], [1, Mode.pay, 1]), advanceUs: 60 },
      { ...held([1, Mode.pay, 2], [2, Mode.pay, 1]), advanceUs: 1 },
    ],
  },
  // A hold ends in a call that is refused, and whose takes reach the bucket by two limits, in the middle of a tick.
  {
    startUs: 1_767_225_719_999_993,
    limits: [
      { ...heldLong, burst: 40 },
      { ...heldLong, burst: 39, reserve: 1 },
    ],
    steps: [
      held([0, Mode.postPaid, 1], [0, Mode.pay, 1]),
      { ...held([0, Mode.pay, 1], [1, Mode.pay, 40]), advanceUs: 27_035_000_000 },
      held([0, Mode.pay, 1]),
    ],
  },
];
