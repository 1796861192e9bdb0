// Counters of rules, with the reference service's meanings, and of descriptors that met no rule. They are plain numbers because every
// call changes them; telemetry reads them when it is scraped.

/** What one limit has decided so far. Counters are in hits unless a comment says otherwise; all but `holdsLive` only grow. */
export class LimitStats {
  totalHits = 0;
  withinLimit = 0;
  nearLimit = 0;
  overLimit = 0;
  overLimitWithLocalCache = 0;
  /** The part of `overLimit` that `on_store_failure: deny` refused, because the store did not answer. */
  deniedUnanswered = 0;
  shadowMode = 0;
  /** Peeks answered, in calls. If peeks are followed by refused hits above 1, callers probably report after the fact. */
  peeks = 0;
  /** Holds opened by payments, in holds, as are the counters of holds and settlements below. */
  holdsOpened = 0;
  /** Live holds in this process's memory. Holds that have ended count until a call notices their end. */
  holdsLive = 0;
  /** Holds that ended unsettled, counted when a call notices their end. */
  holdsExpired = 0;
  /** Settlements of live holds. */
  settlements = 0;
  /** Sum over settlements of what was held beyond what was used, in cost. */
  heldUnused = 0;
  /** Sum over settlements of what was used beyond what was held, in cost. */
  usedUnheld = 0;
  /** Settlements that found no hold, because it had ended or was never opened. What they report is charged. */
  settledLate = 0;
  /** Settlements of a hold that was settled already. They charge nothing. */
  settledAgain = 0;

  /** True if any counter that metrics show has moved. Settlements count too: their payments may have gone to another process. */
  get hasMoved(): boolean {
    return this.totalHits > 0 || this.settlements > 0 || this.settledLate > 0 || this.holdsExpired > 0;
  }
}

/** The counters of a rule that the operator's page shows, in hits since the process started or the rule came into force. */
export interface RuleCount {
  readonly hits: number;
  readonly refused: number;
  /** The part of `refused` that passed because of shadow mode. */
  readonly shadowed: number;
}

/** Keeps the stats of rules across reloads. */
export interface StatsBook {
  /**
   * The stats of a rule, the same object for the same arguments.
   * `path` has one element per level (`key` or `key_value`); `limit` is the limit's name or the empty string.
   */
  statsOf(domain: string, path: readonly string[], limit: string): LimitStats;
}

/** Keeps the stats of single values (`detailed_metric`, `value_to_metric`), of at most METRIC_VALUES_MAX values per rule. */
export interface ValueStatsBook {
  /**
   * The stats of a rule for the values of one call: the same object for the same arguments. Once the rule has METRIC_VALUES_MAX
   * values, the stats of `other`. `ruleStats` are those that `statsOf` gave for the rule; `path` is as there.
   */
  statsOfValues(ruleStats: LimitStats, path: readonly string[]): LimitStats;
}

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
export function countUnmatched(
  stats: UnmatchedStats,
  descriptor: { readonly keys: readonly string[]; readonly entryCount: number },
): void {
  stats.descriptors++;
  if (!stats.wantsExample) return;
  stats.wantsExample = false;
  stats.exampleKeys = descriptor.keys.slice(0, descriptor.entryCount);
}
