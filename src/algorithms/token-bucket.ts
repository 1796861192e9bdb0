// Token bucket: `amount` tokens return per window, at most `burst` are there. The state is a debt: what has been paid and has
// not returned yet, in millionths of a token. So a bucket without state is a full one, and a change of burst keeps what was
// spent. A cost has room while the debt and the cost together are no more than the burst.
//
//   paying       debt += cost x 1e6
//   each tick    debt -= amount, down to 0 (a window has 1e6 ticks)
//   remaining    (burst x 1e6 - debt) / 1e6, rounded down
//
// The same algorithm stands in lua/token_bucket.lua, lua/take_each.lua and sql/016_token_bucket.sql; test/property/agreement.ts
// and test/lua/take-each.test.ts hold them equal.

import type { Limit } from "../core/limit.ts";
import { refillOf, refillWithinTick, usToRefill, WAIT_US_MAX } from "../core/refill.ts";
import { Outcome } from "../core/take.ts";
import { divideDown, divideUp, MICROS_PER_TOKEN } from "../core/units.ts";
import { type BucketState, type Judgement, type Report, type Step, skewMaxUs, windowUsOf } from "./step.ts";

// Whole ticks are taken off the debt, the part of one that has passed stays in `atUs`: nothing is rounded away. What it has
// worked off is counted whenever the debt is looked at.
function advance(state: BucketState, limit: Limit, nowUs: number): boolean {
  const isRedated = state.atUs > nowUs + skewMaxUs(limit);
  if (isRedated) state.atUs = nowUs;
  if (nowUs > state.atUs) {
    const ticks = divideDown(nowUs - state.atUs, limit.windowSeconds);
    if (limit.amount > 0 && ticks >= divideUp(state.used, limit.amount)) {
      state.used = 0;
    } else {
      // Below ceil(debt / amount) ticks the product is below the debt, so it can't pass 2^53.
      state.used -= ticks * limit.amount;
      state.atUs += ticks * limit.windowSeconds;
    }
  }
  fillIfPaidOff(state, limit, nowUs);
  return isRedated;
}

/** What the part of a tick since `atUs` has worked off; at most the debt. */
function workedOff(state: BucketState, limit: Limit, nowUs: number): number {
  return nowUs > state.atUs ? refillWithinTick(nowUs - state.atUs, limit) : 0;
}

/** A bucket without debt is a full one, and nothing returns to it: time counts from now on. */
function fillIfPaidOff(state: BucketState, limit: Limit, nowUs: number): void {
  if (state.used > workedOff(state, limit, nowUs)) return;
  state.used = 0;
  state.atUs = Math.max(state.atUs, nowUs);
}

function clear(state: BucketState, _limit: Limit, nowUs: number): void {
  state.atUs = nowUs;
  state.used = 0;
  state.previous = 0;
}

/** Makes the state one that another limit can go on with: the part of a tick is worked off by the limit it passed under. */
function settle(state: BucketState, limit: Limit, nowUs: number): void {
  state.used -= workedOff(state, limit, nowUs);
  state.atUs = Math.max(state.atUs, nowUs);
}

function judge(state: BucketState, limit: Limit, cost: number, nowUs: number, judgement: Judgement): void {
  const excess = state.used + cost * MICROS_PER_TOKEN - limit.burst * MICROS_PER_TOKEN;
  judgement.waitUs = 0;
  if (cost > limit.burst) judgement.outcome = Outcome.never;
  else if (excess <= workedOff(state, limit, nowUs)) judgement.outcome = Outcome.room;
  else {
    judgement.outcome = Outcome.over;
    judgement.waitUs = usUntilWorkedOff(excess, state, limit, nowUs);
  }
}

/** Microseconds until so much of the debt is worked off; a window if that never happens. */
function usUntilWorkedOff(debt: number, state: BucketState, limit: Limit, nowUs: number): number {
  if (limit.amount === 0) return windowUsOf(limit);
  const us = usToRefill(debt, limit);
  return us === WAIT_US_MAX ? us : Math.min(WAIT_US_MAX, us + state.atUs - nowUs);
}

function pay(state: BucketState, cost: number): void {
  state.used += cost * MICROS_PER_TOKEN;
}

function undo(state: BucketState, cost: number): void {
  state.used -= cost * MICROS_PER_TOKEN;
}

function postPay(state: BucketState, limit: Limit, cost: number, nowUs: number): number {
  const debtMax = limit.debtMax * MICROS_PER_TOKEN + workedOff(state, limit, nowUs);
  // The rule was edited to a smaller debtMax: what is owed stays owed.
  if (state.used > debtMax) return cost;
  const debt = state.used + cost * MICROS_PER_TOKEN;
  state.used = Math.min(debt, debtMax);
  return divideUp(debt - state.used, MICROS_PER_TOKEN);
}

function refund(state: BucketState, limit: Limit, cost: number, nowUs: number): void {
  takeOff(state, limit, cost * MICROS_PER_TOKEN, nowUs);
}

function takeOff(state: BucketState, limit: Limit, debt: number, nowUs: number): void {
  state.used = Math.max(0, state.used - debt);
  fillIfPaidOff(state, limit, nowUs);
}

// What has returned since the payment was not lost by it: without the payment the bucket may have stood full and got none.
function giveBack(state: BucketState, limit: Limit, cost: number, paidAtUs: number, nowUs: number): void {
  const debt = cost * MICROS_PER_TOKEN - (nowUs > paidAtUs ? refillUp(nowUs - paidAtUs, limit) : 0);
  if (debt > 0) takeOff(state, limit, debt, nowUs);
}

/** What is owed at `nowUs`, in millionths of a token, rounded up. */
function debtAt(state: BucketState, limit: Limit, nowUs: number): number {
  return state.used - workedOff(state, limit, nowUs);
}

/** No less than what has returned in that time, however its ticks lay. */
function refillUp(us: number, limit: Limit): number {
  return limit.amount === 0 ? 0 : refillOf(us, limit) + 1;
}

function paidAtUs(state: BucketState, nowUs: number): number {
  return Math.max(state.atUs, nowUs);
}

function report(state: BucketState, limit: Limit, nowUs: number, into: Report): void {
  const debt = state.used - workedOff(state, limit, nowUs);
  into.remaining = Math.max(0, divideDown(limit.burst * MICROS_PER_TOKEN - debt, MICROS_PER_TOKEN));
  into.resetUs = state.used === 0 ? 0 : usUntilWorkedOff(state.used, state, limit, nowUs);
}

function isAsNew(state: BucketState): boolean {
  return state.used === 0;
}

/**
 * Has room for `cost` while debt + cost x 1e6 <= burst x 1e6; in `us` microseconds floor(us x amount / windowSeconds)
 * comes off the debt. Grants at most burst + rate x t in any stretch of time t. A cost above `burst` never passes;
 * `amount` 0 never refills. Post-paid hits run the debt up to debtMax x 1e6.
 */
export const tokenBucket: Step<BucketState> & {
  settle: typeof settle;
  debtAt: typeof debtAt;
  takeOff: typeof takeOff;
} = {
  advance,
  clear,
  settle,
  debtAt,
  takeOff,
  judge,
  pay,
  undo,
  postPay,
  refund,
  giveBack,
  paidAtUs,
  report,
  isAsNew,
};
