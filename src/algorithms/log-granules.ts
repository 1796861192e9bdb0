// Granules of time. Entries of one granule may be joined, which bounds the entries of a sliding log, and so what a take reads, drops
// or walks over. The same bounds hold in Redis and PostgreSQL.

import type { Limit } from "../core/limit.ts";
import { divideDown, divideUp } from "../core/units.ts";
import { windowUsOf } from "./step.ts";

/**
 * Up to this many entries, each payment has an entry of its own. Beyond, payments of one granule share an entry, dated as the last
 * of them: they count for up to a granule longer, never shorter. So a log has at most LOG_FINE_MAX + LOG_GRANULES + 1 entries.
 */
export const LOG_FINE_MAX = 128;
/** Number of granules in a window. */
export const LOG_GRANULES = 128;

/** Length of a granule in microseconds, rounded up. */
export function granuleUsOf(limit: Limit): number {
  return divideUp(windowUsOf(limit), LOG_GRANULES);
}

export function isOneGranule(oneUs: number, otherUs: number, granuleUs: number): boolean {
  return divideDown(oneUs, granuleUs) === divideDown(otherUs, granuleUs);
}
