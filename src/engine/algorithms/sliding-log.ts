// Sliding log: keeps every payment with its time, so that the limit holds exactly in any rolling window. The same
// algorithm is in lua/sliding_log.lua; test/property/agreement.ts keeps them equal.

import { AMOUNT_MAX } from "../../base/units.ts";
import { Outcome } from "../domain/take.ts";
import type { LogState } from "./log-state.ts";
import { type Step, skewMaxUs, windowUsOf } from "./working-bucket.ts";

/**
 * Has room while total + cost <= amount, where total is what was paid within the last window's length. A payment counts
 * until it is a whole window old. Grants at most `amount` in any rolling window.
 */
export const slidingLog: Step<LogState> = {
  advance(log, limit, nowUs) {
    const isRedated = log.newestUs > nowUs + skewMaxUs(limit);
    const effectiveUs = isRedated ? nowUs : Math.max(nowUs, log.newestUs);
    log.advance(effectiveUs, effectiveUs - windowUsOf(limit));
    return isRedated;
  },
  clear(log, _limit, nowUs) {
    log.clear(nowUs);
  },
  judge(log, limit, cost, nowUs, judgement) {
    const excess = log.total + cost - limit.amount;
    judgement.waitUs = 0;
    if (cost > limit.amount) judgement.outcome = Outcome.never;
    else if (excess <= 0) judgement.outcome = Outcome.room;
    else {
      judgement.outcome = Outcome.over;
      judgement.waitUs = log.timeThatFrees(excess) + windowUsOf(limit) - nowUs;
    }
  },
  pay(log, cost) {
    log.add(cost);
  },
  undo(log, cost) {
    log.takeOffNewest(cost);
  },
  postPay(log, _limit, cost) {
    const kept = Math.min(cost, AMOUNT_MAX - log.total);
    if (kept > 0) log.add(kept);
    return cost - kept;
  },
  refund(log, _limit, cost) {
    log.takeOffNewest(cost);
  },
  giveBack(log, _limit, cost, paidAtUs) {
    log.takeOffAt(paidAtUs, cost);
  },
  paidAtUs(log) {
    return log.effectiveUs;
  },
  report(log, limit, nowUs, into) {
    const total = log.total;
    into.remaining = Math.max(0, limit.amount - total);
    into.resetUs = total > 0 ? log.newestUs + windowUsOf(limit) - nowUs : 0;
  },
  isAsNew(log) {
    return log.total === 0;
  },
};
