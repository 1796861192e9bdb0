// Counters of descriptors that met no rule. Plain numbers, because they move on calls; telemetry reads them.

import type { Descriptor } from "./request.ts";

/** What came for one domain and met no rule. */
export class UnmatchedStats {
  /** Descriptors that no rule limits or lets pass by name: they passed unlimited. Only grows. */
  descriptors = 0;
  /** Keys of one of them, one-byte, in their order; none until there was one, nor for a domain without rules. */
  exampleKeys: readonly string[] = [];
  /** True: the next one becomes the example. Whoever tells of them sets it. */
  wantsExample = true;
}

/** Where these stats live over reloads. */
export interface UnmatchedStatsBook {
  /** The stats of a domain that has rules (one-byte), the same object for the same domain. */
  unmatchedOf(domain: string): UnmatchedStats;
}

/** Counts a descriptor. Costs an addition, but for one example now and then. */
export function countUnmatched(stats: UnmatchedStats, descriptor: Descriptor): void {
  stats.descriptors++;
  if (!stats.wantsExample) return;
  stats.wantsExample = false;
  stats.exampleKeys = descriptor.keys.slice(0, descriptor.entryCount);
}
