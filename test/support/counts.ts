// Counters of a process with one thread, with room for what a test counts.

import { reserveCounts } from "../../src/engine/base/count-layout.ts";
import { SharedCounts } from "../../src/engine/base/shared-counts.ts";

const PLACES = 4_096;

export function countsAlone(places: number = PLACES): SharedCounts {
  return new SharedCounts(reserveCounts(1, places), 0);
}
