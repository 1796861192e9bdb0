// Token bucket: `amount` tokens return per window, at most `burst` are there. Kept as debt, so that a bucket without
// state is a full one and a change of burst keeps what was spent.

import type { Limit } from "../core/limit.ts";
import { Outcome } from "../core/take.ts";
import { divideDown, divideUp, TICKS_PER_WINDOW } from "../core/units.ts";
import { type BucketState, type Judgement, type Report, type Step, skewMaxUs, ticksUntil } from "./step.ts";

/** Debt of one token: `amount` of these come off per tick, which makes `amount` tokens per window. */
const DEBT_PER_TOKEN = 1_000_000;

function advance(state: BucketState, limit: Limit, nowUs: number): boolean {
  const isRedated = state.atUs > nowUs + skewMaxUs(limit);
  if (isRedated) state.atUs = nowUs;
  if (nowUs > state.atUs) {
    const ticks = divideDown(nowUs - state.atUs, limit.windowSeconds);
    if (limit.amount > 0 && ticks >= divideUp(state.used, limit.amount)) {
      state.used = 0;
    } else {
      // Below ceil(debt / amount) ticks the product is below the debt, so it can't pass 2^53. The part of a tick that
      // has passed stays in `atUs`.
      state.used -= ticks * limit.amount;
      state.atUs += ticks * limit.windowSeconds;
    }
  }
  if (state.used === 0) state.atUs = Math.max(state.atUs, nowUs);
  return isRedated;
}

function clear(state: BucketState, _limit: Limit, nowUs: number): void {
  state.atUs = nowUs;
  state.used = 0;
  state.previous = 0;
}

function judge(state: BucketState, limit: Limit, cost: number, nowUs: number, judgement: Judgement): void {
  const { amount, burst } = limit;
  const excess = state.used + cost * DEBT_PER_TOKEN - burst * DEBT_PER_TOKEN;
  if (cost > burst) {
    judgement.outcome = Outcome.never;
    judgement.waitTicks = amount > 0 ? divideUp(burst * DEBT_PER_TOKEN, amount) : TICKS_PER_WINDOW;
  } else if (excess <= 0) {
    judgement.outcome = Outcome.room;
    judgement.waitTicks = 0;
  } else {
    judgement.outcome = Outcome.over;
    judgement.waitTicks =
      amount > 0 ? divideUp(excess, amount) + ticksUntil(state.atUs, nowUs, limit) : TICKS_PER_WINDOW;
  }
}

function pay(state: BucketState, cost: number): void {
  state.used += cost * DEBT_PER_TOKEN;
}

function undo(state: BucketState, cost: number): void {
  state.used -= cost * DEBT_PER_TOKEN;
}

function postPay(state: BucketState, limit: Limit, cost: number): number {
  const debtMax = limit.debtMax * DEBT_PER_TOKEN;
  // The rule was edited to a smaller debtMax: what is owed stays owed.
  if (state.used > debtMax) return cost;
  const debt = state.used + cost * DEBT_PER_TOKEN;
  state.used = Math.min(debt, debtMax);
  return divideUp(debt - state.used, DEBT_PER_TOKEN);
}

function refund(state: BucketState, cost: number): void {
  state.used = Math.max(0, state.used - cost * DEBT_PER_TOKEN);
}

function giveBack(state: BucketState, _limit: Limit, cost: number): void {
  refund(state, cost);
}

function paidAtUs(state: BucketState, nowUs: number): number {
  return Math.max(state.atUs, nowUs);
}

function report(state: BucketState, limit: Limit, nowUs: number, into: Report): void {
  const { amount, burst } = limit;
  into.remaining = Math.max(0, divideDown(burst * DEBT_PER_TOKEN - state.used, DEBT_PER_TOKEN));
  if (state.used === 0) into.resetTicks = 0;
  else if (amount === 0) into.resetTicks = TICKS_PER_WINDOW;
  else into.resetTicks = divideUp(state.used, amount) + ticksUntil(state.atUs, nowUs, limit);
}

function isAsNew(state: BucketState): boolean {
  return state.used === 0;
}

/**
 * Has room for `cost` while debt + cost x 1e6 <= burst x 1e6; each tick takes `amount` off the debt.
 * Grants at most burst + rate x t in any stretch of time t. A cost above `burst` never passes; `amount` 0 never refills.
 * Post-paid hits run the debt up to debtMax x 1e6.
 */
export const tokenBucket: Step<BucketState> = {
  advance,
  clear,
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
