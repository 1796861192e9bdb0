// Token bucket: `amount` tokens return per window, up to `burst`. The state is a debt: what was paid and has not
// returned yet, in millionths of a token. So a bucket without state is full, and an edited burst keeps what was spent.
// A cost has room while debt and cost together do not exceed the burst.
//
//   paying       debt += cost x 1e6
//   each tick    debt -= amount, down to 0 (a window has 1e6 ticks)
//   remaining    (burst x 1e6 - debt) / 1e6, rounded down
//
// The same algorithm is in lua/token_bucket.lua and sql/take_each.sql; test/property/agreement.ts keeps them equal.

import { divideDown, divideUp, MICROS_PER_TOKEN } from "../../base/units.ts";
import { type Limit, refillOf, refillWithinTick, usToRefill, WAIT_US_MAX } from "../domain/limit.ts";
import { Outcome } from "../domain/take.ts";
import { type BucketState, type Step, skewMaxUs, windowUsOf } from "./working-bucket.ts";

/** Refill of the part of a tick since `atUs`, in millionths of a token; at most the debt. */
function workedOff(state: BucketState, limit: Limit, nowUs: number): number {
  return nowUs > state.atUs ? refillWithinTick(nowUs - state.atUs, limit) : 0;
}

/** Makes a bucket without debt a full one, to which nothing returns: its time begins now. */
function fillIfPaidOff(state: BucketState, limit: Limit, nowUs: number): void {
  if (state.used > workedOff(state, limit, nowUs)) return;
  state.used = 0;
  state.atUs = Math.max(state.atUs, nowUs);
}

/** Takes the refill of the part of a tick off the debt, so that the state can go on under another limit. */
function countRefill(state: BucketState, limit: Limit, nowUs: number): void {
  state.used -= workedOff(state, limit, nowUs);
  state.atUs = Math.max(state.atUs, nowUs);
}

/**
 * Microseconds from now until `debt`, which is of `state.atUs` and in millionths of a token, has returned; a window's
 * length if the limit has no refill.
 */
function usUntilWorkedOff(debt: number, state: BucketState, limit: Limit, nowUs: number): number {
  if (limit.amount === 0) return windowUsOf(limit);
  const us = usToRefill(debt, limit);
  return us === WAIT_US_MAX ? us : Math.min(WAIT_US_MAX, us + state.atUs - nowUs);
}

function takeOff(state: BucketState, limit: Limit, debt: number, nowUs: number): void {
  state.used = Math.max(0, state.used - debt);
  fillIfPaidOff(state, limit, nowUs);
}

/** The debt at `nowUs` in millionths of a token, rounded up. */
function debtAt(state: BucketState, limit: Limit, nowUs: number): number {
  return state.used - workedOff(state, limit, nowUs);
}

/** An upper bound of the refill in `us` microseconds, wherever ticks begin in that time. */
function refillUp(us: number, limit: Limit): number {
  return limit.amount === 0 ? 0 : refillOf(us, limit) + 1;
}

/**
 * Has room for `cost` while debt + cost x 1e6 <= burst x 1e6. In `us` microseconds the debt falls by floor(us x amount
 * / windowSeconds). Grants at most burst + rate x t in any time t. A cost above `burst` never passes; `amount` 0 never
 * refills. Post-paid hits raise the debt up to debtMax x 1e6.
 */
export const tokenBucket: Step<BucketState> & {
  countRefill: typeof countRefill;
  debtAt: typeof debtAt;
  takeOff: typeof takeOff;
} = {
  countRefill,
  debtAt,
  takeOff,
  // Only whole ticks are taken off the debt. The part of a tick since `atUs` stays in `atUs`, so nothing is rounded
  // away; `workedOff` counts its refill wherever the debt is read.
  advance(state, limit, nowUs) {
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
  },
  clear(state, _limit, nowUs) {
    state.atUs = nowUs;
    state.used = 0;
    state.previous = 0;
  },
  judge(state, limit, cost, nowUs, judgement) {
    const excess = state.used + cost * MICROS_PER_TOKEN - limit.burst * MICROS_PER_TOKEN;
    judgement.waitUs = 0;
    if (cost > limit.burst) judgement.outcome = Outcome.never;
    else if (excess <= workedOff(state, limit, nowUs)) judgement.outcome = Outcome.room;
    else {
      judgement.outcome = Outcome.over;
      judgement.waitUs = usUntilWorkedOff(excess, state, limit, nowUs);
    }
  },
  pay(state, cost) {
    state.used += cost * MICROS_PER_TOKEN;
  },
  undo(state, cost) {
    state.used -= cost * MICROS_PER_TOKEN;
  },
  postPay(state, limit, cost, nowUs) {
    const debtMax = limit.debtMax * MICROS_PER_TOKEN + workedOff(state, limit, nowUs);
    // After an edit to a smaller debtMax, the larger debt stays.
    if (state.used > debtMax) return cost;
    const debt = state.used + cost * MICROS_PER_TOKEN;
    state.used = Math.min(debt, debtMax);
    return divideUp(debt - state.used, MICROS_PER_TOKEN);
  },
  refund(state, limit, cost, nowUs) {
    takeOff(state, limit, cost * MICROS_PER_TOKEN, nowUs);
  },
  // Refill since the payment is not given back: without the payment the bucket may have been full, and would have got
  // no refill.
  giveBack(state, limit, cost, paidAtUs, nowUs) {
    const debt = cost * MICROS_PER_TOKEN - (nowUs > paidAtUs ? refillUp(nowUs - paidAtUs, limit) : 0);
    if (debt > 0) takeOff(state, limit, debt, nowUs);
  },
  paidAtUs(state, nowUs) {
    return Math.max(state.atUs, nowUs);
  },
  report(state, limit, nowUs, into) {
    const debt = state.used - workedOff(state, limit, nowUs);
    into.remaining = Math.max(0, divideDown(limit.burst * MICROS_PER_TOKEN - debt, MICROS_PER_TOKEN));
    into.resetUs = state.used === 0 ? 0 : usUntilWorkedOff(state.used, state, limit, nowUs);
  },
  isAsNew(state) {
    return state.used === 0;
  },
};
