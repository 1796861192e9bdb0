// Counters of descriptors that met no rule. Plain numbers, because calls change them; telemetry reads them.

import type { Descriptor } from "./request.ts";

/** Stands for all domains without rules beyond those that are told apart. No domain with rules has this name. */
export const OTHER_DOMAINS = "(other domains)";

/** Descriptors of one domain that met no rule. */
export class UnmatchedStats {
  /** How many descriptors passed unlimited because no rule limits them or declares them unlimited. Only grows. */
  descriptors = 0;
  /** Keys of one such descriptor in their order, one-byte. Empty until there was one, and for a domain without rules. */
  exampleKeys: readonly string[] = [];
  /** True: the next descriptor becomes the example. Whoever reports the example sets it to ask for a new one. */
  wantsExample = true;
}

/** Keeps these stats across reloads. */
export interface UnmatchedStatsBook {
  /** The stats of a domain that has rules: the same object for the same domain (one-byte). */
  unmatchedOf(domain: string): UnmatchedStats;
}

/** Counts a descriptor. Costs one addition, except when an example is wanted. */
export function countUnmatched(stats: UnmatchedStats, descriptor: Descriptor): void {
  stats.descriptors++;
  if (!stats.wantsExample) return;
  stats.wantsExample = false;
  stats.exampleKeys = descriptor.keys.slice(0, descriptor.entryCount);
}
