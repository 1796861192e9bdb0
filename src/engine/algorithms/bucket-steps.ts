// Calls the Step of a bucket's algorithm. These are branches and not a table of functions, so that the compiler can inline the
// steps.

import { Algorithm, type Limit } from "../domain/limit.ts";
import type { Take } from "../domain/take.ts";
import type { WorkingBucket } from "./bucket-access.ts";
import { calendarWindow } from "./calendar-window.ts";
import { fixedWindow } from "./fixed-window.ts";
import type { LogState } from "./log-state.ts";
import { slidingLog } from "./sliding-log.ts";
import { slidingWindow } from "./sliding-window.ts";
import type { Report } from "./step.ts";
import { tokenBucket } from "./token-bucket.ts";

function logOf(bucket: WorkingBucket): LogState {
  return bucket.log ?? bucket.useLog();
}

/** Sets the bucket to the state of a new one. */
export function clearBucket(bucket: WorkingBucket, limit: Limit, nowUs: number): void {
  if (bucket.algorithm === Algorithm.tokenBucket) tokenBucket.clear(bucket.state, limit, nowUs);
  else if (bucket.algorithm === Algorithm.slidingWindow) slidingWindow.clear(bucket.state, limit, nowUs);
  else if (bucket.algorithm === Algorithm.fixedWindow) fixedWindow.clear(bucket.state, limit, nowUs);
  else if (bucket.algorithm === Algorithm.calendarWindow) calendarWindow.clear(bucket.state, limit, nowUs);
  else slidingLog.clear(logOf(bucket), limit, nowUs);
}

/** Prepares an open bucket for another limit: the refill so far is counted under `from`, the limit under which it passed. */
export function handOverBucket(bucket: WorkingBucket, from: Limit, nowUs: number): void {
  if (bucket.algorithm !== Algorithm.tokenBucket) return;
  const before = bucket.state.used;
  tokenBucket.settle(bucket.state, from, nowUs);
  // Refill by time alone is no change that must be written.
  bucket.openedUsed += bucket.state.used - before;
}

/** Brings the bucket to `nowUs`. True if its date was too far in the future and was moved to now. */
export function advanceBucket(bucket: WorkingBucket, limit: Limit, nowUs: number): boolean {
  if (bucket.algorithm === Algorithm.tokenBucket) return tokenBucket.advance(bucket.state, limit, nowUs);
  if (bucket.algorithm === Algorithm.slidingWindow) return slidingWindow.advance(bucket.state, limit, nowUs);
  if (bucket.algorithm === Algorithm.fixedWindow) return fixedWindow.advance(bucket.state, limit, nowUs);
  if (bucket.algorithm === Algorithm.calendarWindow) return calendarWindow.advance(bucket.state, limit, nowUs);
  return slidingLog.advance(logOf(bucket), limit, nowUs);
}

/** Writes `outcome` and `waitUs` of the take. */
export function judgeTake(bucket: WorkingBucket, take: Take, nowUs: number): void {
  if (bucket.algorithm === Algorithm.tokenBucket) tokenBucket.judge(bucket.state, take.limit, take.cost, nowUs, take);
  else if (bucket.algorithm === Algorithm.slidingWindow)
    slidingWindow.judge(bucket.state, take.limit, take.cost, nowUs, take);
  else if (bucket.algorithm === Algorithm.fixedWindow)
    fixedWindow.judge(bucket.state, take.limit, take.cost, nowUs, take);
  else if (bucket.algorithm === Algorithm.calendarWindow)
    calendarWindow.judge(bucket.state, take.limit, take.cost, nowUs, take);
  else slidingLog.judge(logOf(bucket), take.limit, take.cost, nowUs, take);
}

/** Pays the cost of a take that found room. */
export function payTake(bucket: WorkingBucket, take: Take): void {
  if (bucket.algorithm === Algorithm.tokenBucket) tokenBucket.pay(bucket.state, take.cost);
  else if (bucket.algorithm === Algorithm.slidingWindow) slidingWindow.pay(bucket.state, take.cost);
  else if (bucket.algorithm === Algorithm.fixedWindow) fixedWindow.pay(bucket.state, take.cost);
  else if (bucket.algorithm === Algorithm.calendarWindow) calendarWindow.pay(bucket.state, take.cost);
  else slidingLog.pay(logOf(bucket), take.cost);
}

/** Reverses `payTake` exactly. */
export function undoTake(bucket: WorkingBucket, take: Take): void {
  if (bucket.algorithm === Algorithm.tokenBucket) tokenBucket.undo(bucket.state, take.cost);
  else if (bucket.algorithm === Algorithm.slidingWindow) slidingWindow.undo(bucket.state, take.cost);
  else if (bucket.algorithm === Algorithm.fixedWindow) fixedWindow.undo(bucket.state, take.cost);
  else if (bucket.algorithm === Algorithm.calendarWindow) calendarWindow.undo(bucket.state, take.cost);
  else slidingLog.undo(logOf(bucket), take.cost);
}

/** Pays a cost whether or not there is room; returns the hits that could not be recorded. */
export function postPayCost(bucket: WorkingBucket, limit: Limit, cost: number, nowUs: number): number {
  if (bucket.algorithm === Algorithm.tokenBucket) return tokenBucket.postPay(bucket.state, limit, cost, nowUs);
  if (bucket.algorithm === Algorithm.slidingWindow) return slidingWindow.postPay(bucket.state, limit, cost, nowUs);
  if (bucket.algorithm === Algorithm.fixedWindow) return fixedWindow.postPay(bucket.state, limit, cost, nowUs);
  if (bucket.algorithm === Algorithm.calendarWindow) return calendarWindow.postPay(bucket.state, limit, cost, nowUs);
  return slidingLog.postPay(logOf(bucket), limit, cost, nowUs);
}

/** Gives the cost of the take back; what is used does not fall below 0. */
export function refundTake(bucket: WorkingBucket, { limit, cost }: Take, nowUs: number): void {
  if (bucket.algorithm === Algorithm.tokenBucket) tokenBucket.refund(bucket.state, limit, cost, nowUs);
  else if (bucket.algorithm === Algorithm.slidingWindow) slidingWindow.refund(bucket.state, limit, cost, nowUs);
  else if (bucket.algorithm === Algorithm.fixedWindow) fixedWindow.refund(bucket.state, limit, cost, nowUs);
  else if (bucket.algorithm === Algorithm.calendarWindow) calendarWindow.refund(bucket.state, limit, cost, nowUs);
  else slidingLog.refund(logOf(bucket), limit, cost, nowUs);
}

/** Gives back `cost` of a payment made at `paidAtUs`. */
export function giveBackCost(bucket: WorkingBucket, limit: Limit, cost: number, paidAtUs: number, nowUs: number): void {
  if (bucket.algorithm === Algorithm.tokenBucket) tokenBucket.giveBack(bucket.state, limit, cost, paidAtUs, nowUs);
  else if (bucket.algorithm === Algorithm.slidingWindow)
    slidingWindow.giveBack(bucket.state, limit, cost, paidAtUs, nowUs);
  else if (bucket.algorithm === Algorithm.fixedWindow) fixedWindow.giveBack(bucket.state, limit, cost, paidAtUs, nowUs);
  else if (bucket.algorithm === Algorithm.calendarWindow)
    calendarWindow.giveBack(bucket.state, limit, cost, paidAtUs, nowUs);
  else slidingLog.giveBack(logOf(bucket), limit, cost, paidAtUs, nowUs);
}

/** The time that a payment made now is dated, in microseconds. */
export function paidAtUsOf(bucket: WorkingBucket, nowUs: number): number {
  if (bucket.algorithm === Algorithm.tokenBucket) return tokenBucket.paidAtUs(bucket.state, nowUs);
  if (bucket.algorithm === Algorithm.slidingWindow) return slidingWindow.paidAtUs(bucket.state, nowUs);
  if (bucket.algorithm === Algorithm.fixedWindow) return fixedWindow.paidAtUs(bucket.state, nowUs);
  if (bucket.algorithm === Algorithm.calendarWindow) return calendarWindow.paidAtUs(bucket.state, nowUs);
  return slidingLog.paidAtUs(logOf(bucket), nowUs);
}

/** Writes the bucket's `remaining` and `resetUs` under `limit`. */
export function reportBucket(bucket: WorkingBucket, limit: Limit, nowUs: number, report: Report): void {
  if (bucket.algorithm === Algorithm.tokenBucket) tokenBucket.report(bucket.state, limit, nowUs, report);
  else if (bucket.algorithm === Algorithm.slidingWindow) slidingWindow.report(bucket.state, limit, nowUs, report);
  else if (bucket.algorithm === Algorithm.fixedWindow) fixedWindow.report(bucket.state, limit, nowUs, report);
  else if (bucket.algorithm === Algorithm.calendarWindow) calendarWindow.report(bucket.state, limit, nowUs, report);
  else slidingLog.report(logOf(bucket), limit, nowUs, report);
}

/** True if the bucket equals a new one, so that it need not be kept. */
export function isBucketAsNew(bucket: WorkingBucket): boolean {
  if (bucket.algorithm === Algorithm.tokenBucket) return tokenBucket.isAsNew(bucket.state);
  if (bucket.algorithm === Algorithm.slidingWindow) return slidingWindow.isAsNew(bucket.state);
  if (bucket.algorithm === Algorithm.fixedWindow) return fixedWindow.isAsNew(bucket.state);
  if (bucket.algorithm === Algorithm.calendarWindow) return calendarWindow.isAsNew(bucket.state);
  return slidingLog.isAsNew(logOf(bucket));
}

/** Remembers what is used now, for `hasBucketChanged`. */
export function markBucketOpened(bucket: WorkingBucket): void {
  bucket.openedUsed = bucket.algorithm === Algorithm.slidingLog ? logOf(bucket).total : bucket.state.used;
  bucket.openedPrevious = bucket.state.previous;
}

/**
 * True if payments or refunds changed what is used since the bucket was opened, or if opening moved its date or ended holds. Refill
 * by time is no change, because it can be computed again.
 */
export function hasBucketChanged(bucket: WorkingBucket): boolean {
  if (bucket.isChangedByTime) return true;
  if (bucket.algorithm === Algorithm.slidingLog) return logOf(bucket).total !== bucket.openedUsed;
  return bucket.state.used !== bucket.openedUsed || bucket.state.previous !== bucket.openedPrevious;
}

/** True if a limit of a lower rate may need the bucket for longer. Not so for windows: their length is part of the bucket key. */
export function mayOutliveItsRate(bucket: WorkingBucket): boolean {
  return bucket.algorithm === Algorithm.tokenBucket && bucket.state.used > 0;
}
