// How a bucket stands some time after a store told of it, if nothing has happened to it since: what follows from its
// answer and the time that has passed. Pure; whose answer it was and how long it may be used is for others to say.

import { Algorithm, type Limit } from "../../core/limit.ts";
import { refillOf, usToRefill, WAIT_US_MAX } from "../../core/refill.ts";
import { divideDown } from "../../core/units.ts";

/** Debt of one token of a token bucket, in the unit of its state. */
const DEBT_PER_TOKEN = 1_000_000;

/** What a store told of a bucket. Times are by the clock of this process. */
export interface Standing {
  /** What would have passed then. */
  remaining: number;
  /** When the bucket is as new; at or before now if it is. Infinity if nobody lives to see it. */
  asNewAtUs: number;
}

/** Writes what an answer says that was received at `nowUs`. */
export function noteStanding(
  into: Standing,
  limit: Limit,
  answer: { readonly remaining: number; readonly resetUs: number },
  nowUs: number,
): void {
  into.remaining = answer.remaining;
  const isAsNewSomeDay = answer.resetUs === 0 || (!neverRefills(limit) && answer.resetUs < WAIT_US_MAX);
  into.asNewAtUs = isAsNewSomeDay ? nowUs + answer.resetUs : Number.POSITIVE_INFINITY;
}

/** Microseconds until the bucket is as new; never fewer than there are. */
export function resetUsOf(standing: Standing, limit: Limit, nowUs: number): number {
  if (standing.asNewAtUs <= nowUs) return 0;
  if (standing.asNewAtUs !== Number.POSITIVE_INFINITY) return standing.asNewAtUs - nowUs;
  return neverRefills(limit) ? limit.windowSeconds * 1_000_000 : WAIT_US_MAX;
}

/**
 * Cost that would pass now; never more than there is. Of token buckets it is less by what returns in a microsecond, of
 * fixed windows exact; of the others, whose hits leave one by one, it is what was told until they are as new.
 */
export function remainingOf(standing: Standing, limit: Limit, nowUs: number): number {
  if (standing.asNewAtUs <= nowUs) return limit.burst;
  if (!tellsDebt(standing, limit)) return standing.remaining;
  return Math.max(standing.remaining, divideDown(microTokensOf(standing, limit, nowUs), DEBT_PER_TOKEN));
}

/** Tokens of a token bucket that are there now, in millionths: negative in debt. Never more than there are. */
export function microTokensOf(standing: Standing, limit: Limit, nowUs: number): number {
  if (standing.asNewAtUs <= nowUs) return limit.burst * DEBT_PER_TOKEN;
  if (!tellsDebt(standing, limit)) return standing.remaining * DEBT_PER_TOKEN;
  return limit.burst * DEBT_PER_TOKEN - refillOf(standing.asNewAtUs - nowUs, limit);
}

/** Whether the debt of a bucket follows from when it will be as new. */
function tellsDebt(standing: Standing, limit: Limit): boolean {
  return limit.algorithm === Algorithm.tokenBucket && standing.asNewAtUs !== Number.POSITIVE_INFINITY;
}

/** Whether the wait of any cost follows from how the bucket stands. Of the other algorithms only the store knows it. */
export function tellsWaits(limit: Limit): boolean {
  return limit.algorithm === Algorithm.tokenBucket || limit.algorithm === Algorithm.fixedWindow;
}

/** Microseconds until a cost that fits the limit but finds no room now would pass; at most one too many. Needs `tellsWaits`. */
export function waitUsOf(standing: Standing, limit: Limit, cost: number, nowUs: number): number {
  const resetUs = resetUsOf(standing, limit, nowUs);
  if (!tellsDebt(standing, limit)) return resetUs;
  return Math.max(1, resetUs - Math.max(0, usToRefill((limit.burst - cost) * DEBT_PER_TOKEN, limit) - 1));
}

function neverRefills(limit: Limit): boolean {
  return limit.algorithm === Algorithm.tokenBucket && limit.amount === 0;
}
