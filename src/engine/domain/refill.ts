// The refill of a token bucket: `amount` millionths of a token return per tick; a tick is `windowSeconds` microseconds. A tick may
// be 31 seconds long, so refill within a tick counts too. Amounts and times are exact: no part is lost or comes early.
//
// Amounts are below 2^32 and windows at most WINDOW_SECONDS_MAX, which is below 2^25 (limit-part.ts keeps that bound). Products
// that could pass 2^53 are computed in two parts. lua/refill.lua has the same arithmetic; sql/take_each.sql multiplies in
// bigint.

import { divideDown, divideUp } from "../base/units.ts";
import type { Limit } from "./limit.ts";

/** Longest wait and longest lifetime of a bucket: ten years, in microseconds. */
export const WAIT_US_MAX = 10 * 365 * 86_400 * 1_000_000;

/** 2^13. A window of 25 bits is split into high x HALF + low; high is below 2^12. */
const HALF = 8_192;

/** Millionths of a token that return in `us` microseconds, which are less than a tick. Rounded down. */
export function refillWithinTick(us: number, { amount, windowSeconds }: Limit): number {
  const product = us * amount;
  if (product <= Number.MAX_SAFE_INTEGER) return divideDown(product, windowSeconds);
  const whole = divideDown(amount, windowSeconds);
  return us * whole + divideDown(us * (amount - whole * windowSeconds), windowSeconds);
}

/** Millionths of a token that return in `us` microseconds, rounded down. Exact below 2^53; larger results are only approximate. */
export function refillOf(us: number, limit: Limit): number {
  const ticks = divideDown(us, limit.windowSeconds);
  return ticks * limit.amount + refillWithinTick(us - ticks * limit.windowSeconds, limit);
}

/**
 * Microseconds until `microTokens` millionths of a token have returned, rounded up: the smallest `us` with
 * refillOf(us) >= microTokens. At most WAIT_US_MAX, which is also the result for a limit without refill.
 */
export function usToRefill(microTokens: number, { amount, windowSeconds }: Limit): number {
  if (amount === 0) return WAIT_US_MAX;
  const ticks = divideDown(microTokens, amount);
  if (ticks * windowSeconds >= WAIT_US_MAX) return WAIT_US_MAX;
  const rest = microTokens - ticks * amount;
  return Math.min(WAIT_US_MAX, ticks * windowSeconds + usWithinTick(rest, amount, windowSeconds));
}

/** ceil(rest x windowSeconds / amount), for `rest` below `amount`. */
function usWithinTick(rest: number, amount: number, windowSeconds: number): number {
  const product = rest * windowSeconds;
  if (product <= Number.MAX_SAFE_INTEGER) return divideUp(product, amount);
  const high = divideDown(windowSeconds, HALF);
  const us = divideDown(rest * high, amount);
  return us * HALF + divideUp((rest * high - us * amount) * HALF + rest * (windowSeconds - high * HALF), amount);
}
