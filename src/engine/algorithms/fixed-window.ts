// Fixed window: one count per clock-aligned window.

import type { Limit } from "../domain/limit.ts";
import { Outcome } from "../domain/take.ts";
import { alignedWindow, redateIfTooLate, windowStartUs } from "./aligned-window.ts";
import { type BucketState, type Judgement, type Report, type Step, windowUsOf } from "./step.ts";

function advance(state: BucketState, limit: Limit, nowUs: number): boolean {
  const startUs = windowStartUs(limit, nowUs);
  if (state.atUs === startUs) return false;
  if (state.atUs > nowUs) return redateIfTooLate(state, limit, nowUs);
  state.used = 0;
  state.atUs = startUs;
  return false;
}

/** Microseconds until the next window opens. */
function usToNext(state: BucketState, limit: Limit, nowUs: number): number {
  return state.atUs + windowUsOf(limit) - nowUs;
}

function judge(state: BucketState, limit: Limit, cost: number, nowUs: number, judgement: Judgement): void {
  judgement.waitUs = 0;
  if (cost > limit.amount) judgement.outcome = Outcome.never;
  else if (state.used + cost <= limit.amount) judgement.outcome = Outcome.room;
  else {
    judgement.outcome = Outcome.over;
    judgement.waitUs = usToNext(state, limit, nowUs);
  }
}

function refund(state: BucketState, _limit: Limit, cost: number): void {
  state.used = Math.max(0, state.used - cost);
}

function giveBack(state: BucketState, limit: Limit, cost: number, paidAtUs: number): void {
  if (windowStartUs(limit, paidAtUs) === state.atUs) refund(state, limit, cost);
}

function report(state: BucketState, limit: Limit, nowUs: number, into: Report): void {
  into.remaining = Math.max(0, limit.amount - state.used);
  into.resetUs = state.used > 0 ? usToNext(state, limit, nowUs) : 0;
}

function isAsNew(state: BucketState): boolean {
  return state.used === 0;
}

/**
 * Has room while count + cost <= amount in the clock-aligned window that contains now.
 * Grants at most `amount` per aligned window, so up to twice `amount` around a boundary.
 * Post-paid hits count beyond the limit, up to AMOUNT_MAX.
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
