// Calendar window: one count per calendar window. The limit brings the ends of windows by this process's time zone
// data. The state keeps the end that its window began with, so that processes with other zone data count in the same
// window. The same algorithm is in lua/calendar_window.lua and sql/take_each.sql; test/property/agreement.ts keeps them
// equal.
//
// In BucketState, `atUs` is the time of the window's first hit, and `previous` the whole seconds from the second of
// `atUs` to the end of the window. A payment of an earlier window is older than `atUs`, so it is never given back to
// this window.

import { invariant } from "../../base/invariant.ts";
import { divideDown, MICROS_PER_SECOND } from "../../base/units.ts";
import type { WindowEdges } from "../domain/calendar-windows.ts";
import type { Limit } from "../domain/limit.ts";
import { judgeCount, reportCount, windowSteps } from "./fixed-window.ts";
import type { BucketState, Step } from "./working-bucket.ts";

/** A window whose first hit lies further ahead of now than this counts as begun now. */
const SKEW_US_MAX = 10 * MICROS_PER_SECOND;

/**
 * The largest shift of an edge that a change of zone can cause: from UTC-12 to UTC+14. A state whose end is later than
 * the limit's end by more gets the limit's end; its count stays.
 */
const EDGE_SKEW_US_MAX = 26 * 3_600 * MICROS_PER_SECOND;

/** End of the window that contains `atUs`. Outside the given edges, windows are as long as the nearest given one. */
function calendarEndUs({ startUs, endUs, nextEndUs }: WindowEdges, atUs: number): number {
  if (atUs < startUs) return startUs - divideDown(startUs - 1 - atUs, endUs - startUs) * (endUs - startUs);
  if (atUs < endUs) return endUs;
  return nextEndUs + (divideDown(atUs - nextEndUs, nextEndUs - endUs) + 1) * (nextEndUs - endUs);
}

/** End of the limit's window that contains `atUs`. */
function endUsOf(limit: Limit, atUs: number, shiftUs: number): number {
  invariant(limit.calendar !== undefined, "a calendar window without a calendar");
  return calendarEndUs(limit.calendar, atUs + shiftUs) - shiftUs;
}

/** Whether the clock was set and the state's window had not ended before that of the limit began. */
function goesOn(state: BucketState, limit: Limit, endUs: number): boolean {
  const { us, changedAtUs } = state.shift;
  return changedAtUs > 0 && limit.calendar !== undefined && endUs > limit.calendar.startUs - us;
}

/** End of the state's window. */
function stateEndUs({ atUs, previous }: BucketState): number {
  return (divideDown(atUs, MICROS_PER_SECOND) + previous) * MICROS_PER_SECOND;
}

/** Has the state's window begin at `atUs`, `nowUs` at the latest, and end with the limit's. */
function setEdges(state: BucketState, limit: Limit, atUs: number, nowUs: number): void {
  state.atUs = atUs;
  state.previous = endUsOf(limit, nowUs, state.shift.us) / MICROS_PER_SECOND - divideDown(atUs, MICROS_PER_SECOND);
}

function clear(state: BucketState, limit: Limit, nowUs: number): void {
  setEdges(state, limit, nowUs, nowUs);
  state.used = 0;
}

/**
 * Has room while count + cost <= amount in the state's window. Grants at most `amount` per window; where processes
 * disagree about an edge, the time between both edges may be a window of its own.
 */
export const calendarWindow: Step<BucketState> = {
  ...windowSteps,
  clear,
  // An unused window equals none, so a new one begins.
  advance(state, limit, nowUs) {
    const endUs = stateEndUs(state);
    const currentEndUs = endUsOf(limit, nowUs, state.shift.us);
    const isMoved = endUs !== currentEndUs && goesOn(state, limit, endUs);
    if (state.used === 0 || (nowUs >= endUs && !isMoved)) clear(state, limit, nowUs);
    else if (isMoved || state.atUs - nowUs > SKEW_US_MAX || endUs - currentEndUs > EDGE_SKEW_US_MAX) {
      // The count stays, so its payments still belong to the window and can be given back.
      setEdges(state, limit, Math.min(state.atUs, nowUs), nowUs);
      return true;
    }
    return false;
  },
  judge(state, limit, cost, nowUs, judgement) {
    judgeCount(state, limit, cost, stateEndUs(state) - nowUs, judgement);
  },
  giveBack(state, limit, cost, paidAtUs) {
    if (paidAtUs >= state.atUs) windowSteps.refund(state, limit, cost);
  },
  report(state, limit, nowUs, into) {
    reportCount(state, limit, stateEndUs(state) - nowUs, into);
  },
};
