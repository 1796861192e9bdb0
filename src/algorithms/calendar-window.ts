// Calendar window: one count per window of a calendar. The limit hands over where windows end by this process's zone data; the
// state keeps the end that it began with, so that processes of other zone data count in the same window. The same algorithm
// stands in lua/calendar_window.lua and lua/take_each.lua; test/property/agreement.ts and test/lua/take-each.test.ts hold them equal.
//
// In `BucketState` `atUs` is when the window's first hit came, and `previous` how many whole seconds later it ends, counted from
// the second of `atUs`. So what was paid in a window before is never given back to this one, whatever its calendar says.

import type { WindowEdges } from "../core/calendar-windows.ts";
import { invariant } from "../core/invariant.ts";
import type { Limit } from "../core/limit.ts";
import { Outcome } from "../core/take.ts";
import { divideDown, MICROS_PER_SECOND } from "../core/units.ts";
import { alignedWindow } from "./aligned-window.ts";
import type { BucketState, Judgement, Report, Step } from "./step.ts";

/** State that began later than now by more than this counts as begun now. */
const SKEW_US_MAX = 10 * MICROS_PER_SECOND;

/** No change of a zone moves an edge by more: from UTC-12 to UTC+14. A later end than the limit's by more is not believed. */
const EDGE_SKEW_US_MAX = 26 * 3_600 * MICROS_PER_SECOND;

/** End of the window that holds `atUs`. Beyond the edges that were handed over, windows are as long as the nearest. */
function calendarEndUs({ startUs, endUs, nextEndUs }: WindowEdges, atUs: number): number {
  if (atUs < startUs) return startUs - divideDown(startUs - 1 - atUs, endUs - startUs) * (endUs - startUs);
  if (atUs < endUs) return endUs;
  return nextEndUs + (divideDown(atUs - nextEndUs, nextEndUs - endUs) + 1) * (nextEndUs - endUs);
}

function endUsOf(limit: Limit, atUs: number): number {
  invariant(limit.calendar !== undefined, "a calendar window without a calendar");
  return calendarEndUs(limit.calendar, atUs);
}

/** End of the state's window. */
function stateEndUs({ atUs, previous }: BucketState): number {
  return (divideDown(atUs, MICROS_PER_SECOND) + previous) * MICROS_PER_SECOND;
}

function begin(state: BucketState, limit: Limit, nowUs: number): void {
  state.atUs = nowUs;
  state.previous = endUsOf(limit, nowUs) / MICROS_PER_SECOND - divideDown(nowUs, MICROS_PER_SECOND);
}

function clear(state: BucketState, limit: Limit, nowUs: number): void {
  begin(state, limit, nowUs);
  state.used = 0;
}

// A window in which nothing is used is as good as none.
function advance(state: BucketState, limit: Limit, nowUs: number): boolean {
  const endUs = stateEndUs(state);
  if (state.used === 0 || nowUs >= endUs) clear(state, limit, nowUs);
  else if (state.atUs - nowUs > SKEW_US_MAX || endUs - endUsOf(limit, nowUs) > EDGE_SKEW_US_MAX) {
    begin(state, limit, nowUs);
    return true;
  }
  return false;
}

function judge(state: BucketState, limit: Limit, cost: number, nowUs: number, judgement: Judgement): void {
  judgement.waitUs = 0;
  if (cost > limit.amount) judgement.outcome = Outcome.never;
  else if (state.used + cost <= limit.amount) judgement.outcome = Outcome.room;
  else {
    judgement.outcome = Outcome.over;
    judgement.waitUs = stateEndUs(state) - nowUs;
  }
}

function refund(state: BucketState, _limit: Limit, cost: number): void {
  state.used = Math.max(0, state.used - cost);
}

function giveBack(state: BucketState, limit: Limit, cost: number, paidAtUs: number): void {
  if (paidAtUs >= state.atUs) refund(state, limit, cost);
}

function report(state: BucketState, limit: Limit, nowUs: number, into: Report): void {
  into.remaining = Math.max(0, limit.amount - state.used);
  into.resetUs = state.used > 0 ? stateEndUs(state) - nowUs : 0;
}

function isAsNew(state: BucketState): boolean {
  return state.used === 0;
}

/**
 * Has room while count + cost <= amount in the window that the state holds. Grants at most `amount` in it; where processes
 * disagree about an edge, the time between both edges may be a window of its own. Post-paid hits count past the limit, to AMOUNT_MAX.
 */
export const calendarWindow: Step<BucketState> = {
  ...alignedWindow,
  clear,
  advance,
  judge,
  refund,
  giveBack,
  report,
  isAsNew,
};
