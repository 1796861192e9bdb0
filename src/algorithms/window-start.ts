// Where clock-aligned windows begin. Aligned to the Unix epoch, so that all processes and both stores agree.

import type { Limit } from "../core/limit.ts";
import { divideDown } from "../core/units.ts";
import { windowUsOf } from "./step.ts";

/** Start of the window that holds `atUs`, in microseconds. */
export function windowStartUs(limit: Limit, atUs: number): number {
  const windowUs = windowUsOf(limit);
  return divideDown(atUs, windowUs) * windowUs;
}
