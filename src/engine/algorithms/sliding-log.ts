// Sliding log: keeps every payment with its time, so that the limit holds exactly in any rolling window.

import { AMOUNT_MAX } from "../base/units.ts";
import type { Limit } from "../domain/limit.ts";
import { Outcome } from "../domain/take.ts";
import type { LogState } from "./log-state.ts";
import { type Judgement, type Report, type Step, skewMaxUs, windowUsOf } from "./working-bucket.ts";

function advance(log: LogState, limit: Limit, nowUs: number): boolean {
  const isRedated = log.newestUs > nowUs + skewMaxUs(limit);
  const effectiveUs = isRedated ? nowUs : Math.max(nowUs, log.newestUs);
  log.advance(effectiveUs, effectiveUs - windowUsOf(limit));
  return isRedated;
}

function clear(log: LogState, _limit: Limit, nowUs: number): void {
  log.clear(nowUs);
}

function judge(log: LogState, limit: Limit, cost: number, nowUs: number, judgement: Judgement): void {
  const excess = log.total + cost - limit.amount;
  judgement.waitUs = 0;
  if (cost > limit.amount) judgement.outcome = Outcome.never;
  else if (excess <= 0) judgement.outcome = Outcome.room;
  else {
    judgement.outcome = Outcome.over;
    judgement.waitUs = log.timeThatFrees(excess) + windowUsOf(limit) - nowUs;
  }
}

function pay(log: LogState, cost: number): void {
  log.add(cost);
}

function undo(log: LogState, cost: number): void {
  log.takeOffNewest(cost);
}

function postPay(log: LogState, _limit: Limit, cost: number): number {
  const kept = Math.min(cost, AMOUNT_MAX - log.total);
  if (kept > 0) log.add(kept);
  return cost - kept;
}

function refund(log: LogState, _limit: Limit, cost: number): void {
  log.takeOffNewest(cost);
}

function giveBack(log: LogState, _limit: Limit, cost: number, paidAtUs: number): void {
  log.takeOffAt(paidAtUs, cost);
}

function paidAtUs(log: LogState): number {
  return log.effectiveUs;
}

function report(log: LogState, limit: Limit, nowUs: number, into: Report): void {
  const total = log.total;
  into.remaining = Math.max(0, limit.amount - total);
  into.resetUs = total > 0 ? log.newestUs + windowUsOf(limit) - nowUs : 0;
}

function isAsNew(log: LogState): boolean {
  return log.total === 0;
}

/**
 * Has room while total + cost <= amount, where total is what was paid within the last window's length. A payment counts until it is
 * a whole window old. Grants at most `amount` in any rolling window.
 */
export const slidingLog: Step<LogState> = {
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
