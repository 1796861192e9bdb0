// Fixed window: one count per clock-aligned window.

import type { Limit } from "../core/limit.ts";
import { Outcome } from "../core/take.ts";
import { TICKS_PER_WINDOW } from "../core/units.ts";
import { alignedWindow, redateIfTooLate, windowStartUs } from "./aligned-window.ts";
import { type BucketState, type Judgement, type Report, type Step, ticksUntil } from "./step.ts";

function advance(state: BucketState, limit: Limit, nowUs: number): boolean {
  const startUs = windowStartUs(limit, nowUs);
  if (state.atUs === startUs) return false;
  if (state.atUs > nowUs) return redateIfTooLate(state, limit, nowUs);
  state.used = 0;
  state.atUs = startUs;
  return false;
}

/** Ticks until the next window opens. */
function ticksToNext(state: BucketState, limit: Limit, nowUs: number): number {
  return TICKS_PER_WINDOW + ticksUntil(state.atUs, nowUs, limit);
}

function judge(state: BucketState, limit: Limit, cost: number, nowUs: number, judgement: Judgement): void {
  if (cost > limit.amount) {
    judgement.outcome = Outcome.never;
    judgement.waitTicks = TICKS_PER_WINDOW;
  } else if (state.used + cost <= limit.amount) {
    judgement.outcome = Outcome.room;
    judgement.waitTicks = 0;
  } else {
    judgement.outcome = Outcome.over;
    judgement.waitTicks = ticksToNext(state, limit, nowUs);
  }
}

function refund(state: BucketState, cost: number): void {
  state.used = Math.max(0, state.used - cost);
}

function giveBack(state: BucketState, limit: Limit, cost: number, paidAtUs: number): void {
  if (windowStartUs(limit, paidAtUs) === state.atUs) refund(state, cost);
}

function report(state: BucketState, limit: Limit, nowUs: number, into: Report): void {
  into.remaining = Math.max(0, limit.amount - state.used);
  into.resetTicks = state.used > 0 ? ticksToNext(state, limit, nowUs) : 0;
}

function isAsNew(state: BucketState): boolean {
  return state.used === 0;
}

/**
 * Has room while count + cost <= amount in the clock-aligned window that holds now.
 * Grants at most `amount` per aligned window, so up to twice that around a boundary.
 * Post-paid hits count past the limit, to AMOUNT_MAX.
 */
export const fixedWindow: Step<BucketState> = {
  ...alignedWindow,
  advance,
  judge,
  refund,
  giveBack,
  report,
  isAsNew,
};
