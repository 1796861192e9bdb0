// Fixed window: one count per clock-aligned window. Windows are aligned to the Unix epoch, so all processes and all
// stores agree on them. Sliding and calendar windows share what is exported here. The same algorithm is in
// lua/fixed_window.lua and sql/take_each.sql; test/property/agreement.ts keeps them equal.

import { AMOUNT_MAX, divideDown } from "../../base/units.ts";
import type { Limit } from "../domain/limit.ts";
import { Outcome } from "../domain/take.ts";
import { type BucketState, type Judgement, type Report, type Step, skewMaxUs, windowUsOf } from "./working-bucket.ts";

/** Start of the window that contains `atUs`, in microseconds since the epoch; `shiftUs` is that of the time of day. */
export function windowStartUs(limit: Limit, atUs: number, shiftUs = 0): number {
  const windowUs = windowUsOf(limit);
  return divideDown(atUs + shiftUs, windowUs) * windowUs - shiftUs;
}

/**
 * Moves a state of a later window to the current one if it is further ahead of now than skewMaxUs; true if it moved it.
 */
export function redateIfTooLate(state: BucketState, limit: Limit, startUs: number, nowUs: number): boolean {
  if (state.atUs <= nowUs + skewMaxUs(limit)) return false;
  state.atUs = startUs;
  return true;
}

/** Judges by the count of a window that ends in `usToEnd` microseconds. */
export function judgeCount(
  { used }: BucketState,
  { amount }: Limit,
  cost: number,
  usToEnd: number,
  into: Judgement,
): void {
  into.waitUs = 0;
  if (cost > amount) into.outcome = Outcome.never;
  else if (used + cost <= amount) into.outcome = Outcome.room;
  else {
    into.outcome = Outcome.over;
    into.waitUs = usToEnd;
  }
}

/** Reports the count of a window that ends in `usToEnd` microseconds. */
export function reportCount({ used }: BucketState, { amount }: Limit, usToEnd: number, into: Report): void {
  into.remaining = Math.max(0, amount - used);
  into.resetUs = used > 0 ? usToEnd : 0;
}

/** What all windows share. Counts go beyond the limit, up to AMOUNT_MAX. */
export const windowSteps = {
  clear(state: BucketState, limit: Limit, nowUs: number): void {
    state.atUs = windowStartUs(limit, nowUs, state.shift.us);
    state.used = 0;
    state.previous = 0;
  },
  pay(state: BucketState, cost: number): void {
    state.used += cost;
  },
  undo(state: BucketState, cost: number): void {
    state.used -= cost;
  },
  postPay(state: BucketState, _limit: Limit, cost: number): number {
    const used = state.used + cost;
    state.used = Math.min(used, AMOUNT_MAX);
    return used - state.used;
  },
  /** A payment is dated in the state's window even if the clock stepped back before that window. */
  paidAtUs(state: BucketState, nowUs: number): number {
    return Math.max(state.atUs, nowUs);
  },
  refund(state: BucketState, _limit: Limit, cost: number): void {
    state.used = Math.max(0, state.used - cost);
  },
  isAsNew(state: BucketState): boolean {
    return state.used === 0;
  },
};

/**
 * Has room while count + cost <= amount in the clock-aligned window that contains now. Grants at most `amount` per
 * aligned window, so up to twice `amount` around a boundary. If the clock is set, a count moves to the window that then
 * contains now, unless its own window had ended before that one began.
 */
export const fixedWindow: Step<BucketState> = {
  ...windowSteps,
  advance(state, limit, nowUs) {
    const startUs = windowStartUs(limit, nowUs, state.shift.us);
    if (state.atUs === startUs) return false;
    if (state.atUs > nowUs) return redateIfTooLate(state, limit, startUs, nowUs);
    const goesOn = state.atUs + windowUsOf(limit) > startUs;
    state.atUs = startUs;
    if (!goesOn) state.used = 0;
    return goesOn;
  },
  judge(state, limit, cost, nowUs, judgement) {
    judgeCount(state, limit, cost, usToNext(state, limit, nowUs), judgement);
  },
  giveBack(state, limit, cost, paidAtUs) {
    if (windowStartUs(limit, paidAtUs, state.shift.us) === state.atUs) windowSteps.refund(state, limit, cost);
  },
  report(state, limit, nowUs, into) {
    reportCount(state, limit, usToNext(state, limit, nowUs), into);
  },
};

/** Microseconds until the next window opens. */
function usToNext(state: BucketState, limit: Limit, nowUs: number): number {
  return state.atUs + windowUsOf(limit) - nowUs;
}
