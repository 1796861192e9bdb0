// How tokens return to a bucket with time: `amount` millionths of a token each tick, a tick being `windowSeconds`
// microseconds. Here is what returns within a tick and the time until so much has returned, both exact: a tick may be 31
// seconds long, and no part of it is lost or comes early.
//
// Products are kept below 2^53 by taking them apart: an amount is below 2^32 and a window at most WINDOW_SECONDS_MAX, which
// is below 2^25, also where a limit is cut into parts by a longer window. lua/token_bucket.lua does the same;
// sql/token_bucket multiplies in bigint, which holds all of it.

import type { Limit } from "./limit.ts";
import { divideDown, divideUp } from "./units.ts";

/** No wait is told as longer than this: ten years in microseconds. Buckets are kept no longer, either. */
export const WAIT_US_MAX = 10 * 365 * 86_400 * 1_000_000;

/** Half of a window's 25 bits; the other half is at most as large. */
const HALF = 8_192;

/** Millionths of a token that return in `us`, less than a tick; rounded down. */
export function refillWithinTick(us: number, { amount, windowSeconds }: Limit): number {
  const product = us * amount;
  if (product <= Number.MAX_SAFE_INTEGER) return divideDown(product, windowSeconds);
  const whole = divideDown(amount, windowSeconds);
  return us * whole + divideDown(us * (amount - whole * windowSeconds), windowSeconds);
}

/** Millionths of a token that return in `us`, rounded down. Exact as long as it is below 2^53; larger ones are not told apart. */
export function refillOf(us: number, limit: Limit): number {
  const ticks = divideDown(us, limit.windowSeconds);
  return ticks * limit.amount + refillWithinTick(us - ticks * limit.windowSeconds, limit);
}

/**
 * Microseconds until that many millionths of a token have returned, rounded up: the smallest `us` for which `refillOf` is
 * at least as much. At most WAIT_US_MAX, which is also what a limit without refill gets.
 */
export function usToRefill(microTokens: number, { amount, windowSeconds }: Limit): number {
  if (amount === 0) return WAIT_US_MAX;
  const ticks = divideDown(microTokens, amount);
  if (ticks * windowSeconds >= WAIT_US_MAX) return WAIT_US_MAX;
  const rest = microTokens - ticks * amount;
  return Math.min(WAIT_US_MAX, ticks * windowSeconds + usWithinTick(rest, amount, windowSeconds));
}

/** rest x windowSeconds / amount, rounded up; `rest` is below `amount`. */
function usWithinTick(rest: number, amount: number, windowSeconds: number): number {
  const product = rest * windowSeconds;
  if (product <= Number.MAX_SAFE_INTEGER) return divideUp(product, amount);
  const high = divideDown(windowSeconds, HALF);
  const us = divideDown(rest * high, amount);
  return us * HALF + divideUp((rest * high - us * amount) * HALF + rest * (windowSeconds - high * HALF), amount);
}
