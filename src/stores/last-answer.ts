// A bucket's state some time after the store's last answer, if nothing has happened to the bucket since: derived from
// the answer and the time that has passed. Pure; the caller decides how long an answer may be used.

import { divideDown, MICROS_PER_SECOND, MICROS_PER_TOKEN } from "../base/units.ts";
import { ALGORITHM_TRAITS, Algorithm, type Limit, refillOf, usToRefill, WAIT_US_MAX } from "../engine/domain/limit.ts";

/** A store's answer about a bucket. Times are of this process's clock. */
export interface LastAnswer {
  /** Cost that would have passed at the time of the answer. */
  remaining: number;
  /** When the bucket is full again, which may be in the past. Infinity if beyond WAIT_US_MAX. */
  resetAtUs: number;
}

/** Notes an answer received at `nowUs`. */
export function noteAnswer(
  into: LastAnswer,
  limit: Limit,
  answer: { readonly remaining: number; readonly resetUs: number },
  nowUs: number,
): void {
  into.remaining = answer.remaining;
  const resetsSomeDay = answer.resetUs === 0 || (!neverRefills(limit) && answer.resetUs < WAIT_US_MAX);
  into.resetAtUs = resetsSomeDay ? nowUs + answer.resetUs : Number.POSITIVE_INFINITY;
}

/** Microseconds until the bucket is full again; never too few. */
export function resetUsOf(last: LastAnswer, limit: Limit, nowUs: number): number {
  if (last.resetAtUs <= nowUs) return 0;
  if (last.resetAtUs !== Number.POSITIVE_INFINITY) return last.resetAtUs - nowUs;
  return neverRefills(limit) ? limit.windowSeconds * MICROS_PER_SECOND : WAIT_US_MAX;
}

/**
 * Cost that would pass now; never too much. For token buckets it is too low by at most the refill of a microsecond; for
 * fixed windows it is exact; for other kinds, whose hits leave one by one, it is the answer's until the bucket is full
 * again.
 */
export function remainingOf(last: LastAnswer, limit: Limit, nowUs: number): number {
  if (last.resetAtUs <= nowUs) return limit.burst;
  if (!tellsDebt(last, limit)) return last.remaining;
  const microTokens = limit.burst * MICROS_PER_TOKEN - refillOf(last.resetAtUs - nowUs, limit);
  return Math.max(last.remaining, divideDown(microTokens, MICROS_PER_TOKEN));
}

/** Whether the debt of a bucket follows from when it is full again. */
function tellsDebt(last: LastAnswer, limit: Limit): boolean {
  return limit.algorithm === Algorithm.tokenBucket && last.resetAtUs !== Number.POSITIVE_INFINITY;
}

/** Whether the wait of any cost follows from the last answer. For other kinds only the store knows. */
export function tellsWaits(limit: Limit): boolean {
  return limit.algorithm === Algorithm.tokenBucket || ALGORITHM_TRAITS[limit.algorithm].endsAtOnce;
}

/**
 * Microseconds until a cost passes that fits the limit and has no room now; at most one too many. Needs `tellsWaits`.
 */
export function waitUsOf(last: LastAnswer, limit: Limit, cost: number, nowUs: number): number {
  const resetUs = resetUsOf(last, limit, nowUs);
  if (!tellsDebt(last, limit)) return resetUs;
  return Math.max(1, resetUs - Math.max(0, usToRefill((limit.burst - cost) * MICROS_PER_TOKEN, limit) - 1));
}

function neverRefills(limit: Limit): boolean {
  return limit.algorithm === Algorithm.tokenBucket && limit.amount === 0;
}
