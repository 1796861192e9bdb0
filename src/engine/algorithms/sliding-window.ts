// Sliding window: the count of the current clock-aligned window, plus the count of the previous one weighted by the
// part of it that a window ending now still covers. The same algorithm is in lua/sliding_window.lua and
// sql/take_each.sql; test/property/agreement.ts keeps them equal.

import { divideDown, TICKS_PER_WINDOW } from "../../base/units.ts";
import type { Limit } from "../domain/limit.ts";
import { Outcome } from "../domain/take.ts";
import { redateIfTooLate, windowStartUs, windowSteps } from "./fixed-window.ts";
import { type BucketState, type Step, windowUsOf } from "./working-bucket.ts";

/** Ticks since the start of the current window: 0 to 999,999. */
function elapsedTicks(state: BucketState, limit: Limit, nowUs: number): number {
  return nowUs > state.atUs ? divideDown(nowUs - state.atUs, limit.windowSeconds) : 0;
}

/**
 * Ticks from the window's start until a cost fits that does not fit now. `left` is amount - cost, `room` is amount -
 * current - cost.
 */
function firstTickWithRoom(state: BucketState, left: number, room: number): number {
  // The cost fits with the current count alone, so the previous count has to fade. That is above 0: the cost doesn't
  // fit now.
  if (room >= 0) return TICKS_PER_WINDOW - divideDown(room * TICKS_PER_WINDOW, state.previous);
  // Otherwise the current count must become the previous one and fade in turn.
  return TICKS_PER_WINDOW + Math.max(0, TICKS_PER_WINDOW - divideDown(left * TICKS_PER_WINDOW, state.used));
}

/**
 * Has room while previous x (1e6 - elapsed ticks) <= (amount - current - cost) x 1e6.
 * Grants at most `amount` per aligned window, and up to twice `amount` in the worst rolling window.
 */
export const slidingWindow: Step<BucketState> = {
  ...windowSteps,
  // Nobody sees where its windows begin, so they don't follow a clock that is set.
  clear(state, limit, nowUs) {
    state.atUs = windowStartUs(limit, nowUs);
    state.used = 0;
    state.previous = 0;
  },
  advance(state, limit, nowUs) {
    const startUs = windowStartUs(limit, nowUs);
    if (state.atUs === startUs) return false;
    if (state.atUs > nowUs) return redateIfTooLate(state, limit, startUs, nowUs);
    state.previous = state.atUs === startUs - windowUsOf(limit) ? state.used : 0;
    state.used = 0;
    state.atUs = startUs;
    return false;
  },
  judge(state, limit, cost, nowUs, judgement) {
    const { amount } = limit;
    const room = amount - state.used - cost;
    judgement.waitUs = 0;
    if (cost > amount) judgement.outcome = Outcome.never;
    else if (state.previous * (TICKS_PER_WINDOW - elapsedTicks(state, limit, nowUs)) <= room * TICKS_PER_WINDOW)
      judgement.outcome = Outcome.room;
    else {
      judgement.outcome = Outcome.over;
      judgement.waitUs = state.atUs + firstTickWithRoom(state, amount - cost, room) * limit.windowSeconds - nowUs;
    }
  },
  refund(state, _limit, cost) {
    const fromCurrent = Math.min(state.used, cost);
    state.used -= fromCurrent;
    state.previous = Math.max(0, state.previous - (cost - fromCurrent));
  },
  giveBack(state, limit, cost, paidAtUs) {
    const startUs = windowStartUs(limit, paidAtUs);
    if (startUs === state.atUs) state.used = Math.max(0, state.used - cost);
    else if (startUs === state.atUs - windowUsOf(limit)) state.previous = Math.max(0, state.previous - cost);
  },
  report(state, limit, nowUs, into) {
    const weighted = state.previous * (TICKS_PER_WINDOW - elapsedTicks(state, limit, nowUs));
    const left = (limit.amount - state.used) * TICKS_PER_WINDOW - weighted;
    into.remaining = left > 0 ? divideDown(left, TICKS_PER_WINDOW) : 0;
    if (state.used > 0) into.resetUs = state.atUs + 2 * windowUsOf(limit) - nowUs;
    else if (state.previous > 0) into.resetUs = state.atUs + windowUsOf(limit) - nowUs;
    else into.resetUs = 0;
  },
  isAsNew(state) {
    return state.used === 0 && state.previous === 0;
  },
};
