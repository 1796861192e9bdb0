// Divides a limit among several processes, each of which grants its part by itself.

import { divideDown } from "../base/units.ts";
import { Algorithm, type Limit, WINDOW_SECONDS_MAX } from "./limit.ts";

/**
 * The part that process `index` of `count` grants. Amount and burst become floor(n / count), but at least 1 unless they are 0;
 * process 0 also gets the remainder. A token bucket's rate is divided by making its window `count` times as long, which is
 * exact. If that window would exceed WINDOW_SECONDS_MAX, the window becomes the longest multiple that does not, with fewer
 * tokens, at least one.
 */
export function partOfLimit(limit: Limit, count: number, index: number): Limit {
  if (count === 1) return limit;
  const burst = cut(limit.burst, count, index);
  // Burst and reserve together are the part of burst + reserve.
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
