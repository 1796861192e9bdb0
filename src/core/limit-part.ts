// The part of a limit that one of several processes grants by itself.

import { Algorithm, type Limit, WINDOW_SECONDS_MAX } from "./limit.ts";
import { divideDown } from "./units.ts";

/**
 * The part of process `index` of `count`. Amount and burst are cut to floor(n / count), never below 1 unless they are 0;
 * process 0 gets what that leaves over. A token bucket's rate is cut by a longer window, which is exact; where that would
 * be longer than WINDOW_SECONDS_MAX, by fewer tokens in the longest multiple of its window that is not, at least one.
 */
export function partOfLimit(limit: Limit, count: number, index: number): Limit {
  if (count === 1) return limit;
  const burst = cut(limit.burst, count, index);
  // So that what is kept and what is not come to the part of the whole.
  const reserve = limit.reserve === 0 ? 0 : Math.max(0, cut(limit.burst + limit.reserve, count, index) - burst);
  if (limit.algorithm !== Algorithm.tokenBucket)
    return { ...limit, amount: cut(limit.amount, count, index), burst, reserve };
  const { amount, windowSeconds } = limit;
  const times = Math.min(count, Math.max(1, divideDown(WINDOW_SECONDS_MAX, windowSeconds)));
  // Processes are far fewer than 2^21, so the product stays below 2^53.
  const cutAmount = times === count || amount === 0 ? amount : Math.max(1, divideDown(amount * times, count));
  return { ...limit, amount: cutAmount, windowSeconds: windowSeconds * times, burst, reserve };
}

function cut(amount: number, count: number, index: number): number {
  if (amount === 0) return 0;
  if (amount < count) return 1;
  return divideDown(amount, count) + (index === 0 ? amount % count : 0);
}
