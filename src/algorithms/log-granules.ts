// Granules of time that the entries of a sliding log may be joined in, so that it has few of them however many payments
// there are: what a take reads, drops or walks over is bounded, in Redis and PostgreSQL too.

import type { Limit } from "../core/limit.ts";
import { divideDown, divideUp } from "../core/units.ts";
import { windowUsOf } from "./step.ts";

/**
 * Up to so many entries each payment has its own. Beyond that, payments of one granule share one, dated as the last of
 * them: they count for up to a granule longer, never shorter. So a log has at most this many and LOG_GRANULES + 1 more.
 */
export const LOG_FINE_MAX = 128;
/** Granules of a window. */
export const LOG_GRANULES = 128;

/** Length of a granule of the limit's window. */
export function granuleUsOf(limit: Limit): number {
  return divideUp(windowUsOf(limit), LOG_GRANULES);
}

export function isOneGranule(oneUs: number, otherUs: number, granuleUs: number): boolean {
  return divideDown(oneUs, granuleUs) === divideDown(otherUs, granuleUs);
}
