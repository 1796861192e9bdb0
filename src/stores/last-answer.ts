// A bucket's state some time after a store's last answer about it, if nothing has happened to the bucket since: what follows
// from that answer and the time that has passed. Pure; how long an answer may be used is for the caller to say.

import { Algorithm, endsAtOnce, type Limit } from "../core/limit.ts";
import { refillOf, usToRefill, WAIT_US_MAX } from "../core/refill.ts";
import { divideDown, MICROS_PER_SECOND, MICROS_PER_TOKEN } from "../core/units.ts";

/** What a store told of a bucket. Times are by the clock of this process. */
export interface LastAnswer {
  /** What would have passed then. */
  remaining: number;
  /** When the bucket is as new; at or before now if it is. Infinity if that is beyond WAIT_US_MAX. */
  asNewAtUs: number;
}

/** Writes what an answer says that was received at `nowUs`. */
export function noteAnswer(
  into: LastAnswer,
  limit: Limit,
  answer: { readonly remaining: number; readonly resetUs: number },
  nowUs: number,
): void {
  into.remaining = answer.remaining;
  const isAsNewSomeDay = answer.resetUs === 0 || (!neverRefills(limit) && answer.resetUs < WAIT_US_MAX);
  into.asNewAtUs = isAsNewSomeDay ? nowUs + answer.resetUs : Number.POSITIVE_INFINITY;
}

/** Microseconds until the bucket is as new; never fewer than there are. */
export function resetUsOf(last: LastAnswer, limit: Limit, nowUs: number): number {
  if (last.asNewAtUs <= nowUs) return 0;
  if (last.asNewAtUs !== Number.POSITIVE_INFINITY) return last.asNewAtUs - nowUs;
  return neverRefills(limit) ? limit.windowSeconds * MICROS_PER_SECOND : WAIT_US_MAX;
}

/**
 * Cost that would pass now; never more than there is. Of token buckets it is less by what returns in a microsecond, of
 * fixed windows exact; of the others, whose hits leave one by one, it is what was told until they are as new.
 */
export function remainingOf(last: LastAnswer, limit: Limit, nowUs: number): number {
  if (last.asNewAtUs <= nowUs) return limit.burst;
  if (!tellsDebt(last, limit)) return last.remaining;
  return Math.max(last.remaining, divideDown(microTokensOf(last, limit, nowUs), MICROS_PER_TOKEN));
}

/** Tokens of a token bucket that are there now, in millionths: negative in debt. Never more than there are. */
export function microTokensOf(last: LastAnswer, limit: Limit, nowUs: number): number {
  if (last.asNewAtUs <= nowUs) return limit.burst * MICROS_PER_TOKEN;
  if (!tellsDebt(last, limit)) return last.remaining * MICROS_PER_TOKEN;
  return limit.burst * MICROS_PER_TOKEN - refillOf(last.asNewAtUs - nowUs, limit);
}

/** Whether the debt of a bucket follows from when it will be as new. */
function tellsDebt(last: LastAnswer, limit: Limit): boolean {
  return limit.algorithm === Algorithm.tokenBucket && last.asNewAtUs !== Number.POSITIVE_INFINITY;
}

/** Whether the wait of any cost follows from the last answer. Of the other algorithms only the store knows the wait. */
export function tellsWaits(limit: Limit): boolean {
  return limit.algorithm === Algorithm.tokenBucket || endsAtOnce(limit);
}

/** Microseconds until a cost that fits the limit but finds no room now would pass; at most one too many. Needs `tellsWaits`. */
export function waitUsOf(last: LastAnswer, limit: Limit, cost: number, nowUs: number): number {
  const resetUs = resetUsOf(last, limit, nowUs);
  if (!tellsDebt(last, limit)) return resetUs;
  return Math.max(1, resetUs - Math.max(0, usToRefill((limit.burst - cost) * MICROS_PER_TOKEN, limit) - 1));
}

function neverRefills(limit: Limit): boolean {
  return limit.algorithm === Algorithm.tokenBucket && limit.amount === 0;
}
