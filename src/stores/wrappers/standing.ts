// How a bucket stands some time after a store told of it, if nothing has happened to it since: what follows from its
// answer and the time that has passed. Pure; whose answer it was and how long it may be used is for others to say.

import { Algorithm, type Limit } from "../../core/limit.ts";
import { divideDown, divideUp, TICKS_PER_WINDOW } from "../../core/units.ts";

/** Debt of one token of a token bucket, in the unit of its state. */
const DEBT_PER_TOKEN = 1_000_000;

/** What a store told of a bucket. Times are by the clock of this process. */
export interface Standing {
  /** What would have passed then. */
  remaining: number;
  /** When the bucket is as new; at or before now if it is. Infinity if time alone never makes it so. */
  asNewAtUs: number;
}

/** Writes what an answer says that was received at `nowUs`. */
export function noteStanding(
  into: Standing,
  limit: Limit,
  answer: { readonly remaining: number; readonly resetTicks: number },
  nowUs: number,
): void {
  into.remaining = answer.remaining;
  into.asNewAtUs = neverRefills(limit)
    ? answer.resetTicks > 0
      ? Number.POSITIVE_INFINITY
      : nowUs
    : nowUs + answer.resetTicks * limit.windowSeconds;
}

/** Ticks until the bucket is as new; never fewer than there are, at most one more. */
export function resetTicksOf(standing: Standing, limit: Limit, nowUs: number): number {
  if (standing.asNewAtUs <= nowUs) return 0;
  if (standing.asNewAtUs === Number.POSITIVE_INFINITY) return TICKS_PER_WINDOW;
  return divideUp(standing.asNewAtUs - nowUs, limit.windowSeconds);
}

/**
 * Cost that would pass now; never more than there is. Exact for token buckets to the tick and for fixed windows; of the
 * others, whose hits leave one by one, it is what was told until they are as new.
 */
export function remainingOf(standing: Standing, limit: Limit, nowUs: number): number {
  const ticks = resetTicksOf(standing, limit, nowUs);
  if (ticks === 0) return limit.burst;
  if (limit.algorithm !== Algorithm.tokenBucket || limit.amount === 0) return standing.remaining;
  const debt = ticks * limit.amount;
  return Math.max(standing.remaining, divideDown(limit.burst * DEBT_PER_TOKEN - debt, DEBT_PER_TOKEN));
}

/** Tokens of a token bucket that are there now, in millionths: negative in debt. Never more than there are. */
export function microTokensOf(standing: Standing, limit: Limit, nowUs: number): number {
  const ticks = resetTicksOf(standing, limit, nowUs);
  if (ticks === 0) return limit.burst * DEBT_PER_TOKEN;
  if (limit.amount === 0) return standing.remaining * DEBT_PER_TOKEN;
  return limit.burst * DEBT_PER_TOKEN - ticks * limit.amount;
}

/** Whether the wait of any cost follows from how the bucket stands. Of the other algorithms only the store knows it. */
export function tellsWaits(limit: Limit): boolean {
  return limit.algorithm === Algorithm.tokenBucket || limit.algorithm === Algorithm.fixedWindow;
}

/** Ticks until a cost that fits the limit but finds no room now would pass; at most two too many. Needs `tellsWaits`. */
export function waitTicksOf(standing: Standing, limit: Limit, cost: number, nowUs: number): number {
  const ticks = resetTicksOf(standing, limit, nowUs);
  if (limit.algorithm !== Algorithm.tokenBucket || limit.amount === 0) return ticks;
  return ticks - divideDown((limit.burst - cost) * DEBT_PER_TOKEN, limit.amount);
}

/** What is told of a cost that the limit can never hold: a whole window, or the time in which a bucket fills. */
export function waitTicksOfNever(limit: Limit): number {
  if (limit.algorithm !== Algorithm.tokenBucket || limit.amount === 0) return TICKS_PER_WINDOW;
  return divideUp(limit.burst * DEBT_PER_TOKEN, limit.amount);
}

function neverRefills(limit: Limit): boolean {
  return limit.algorithm === Algorithm.tokenBucket && limit.amount === 0;
}
