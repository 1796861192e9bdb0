// Counters of one rule under the reference service's meanings. Plain numbers, because they move on every call;
// telemetry reads them when it is scraped.

/** What one limit has decided so far. Counters are in hits unless they say otherwise, and all but `holdsLive` only grow. */
export class LimitStats {
  totalHits = 0;
  withinLimit = 0;
  nearLimit = 0;
  overLimit = 0;
  overLimitWithLocalCache = 0;
  shadowMode = 0;
  /** Peeks answered, in calls. A rule that is peeked at and then refuses large hits is probably reported to after the fact. */
  peeks = 0;
  /** Holds that payments have opened. */
  holdsOpened = 0;
  /** Holds that this process keeps in memory and nobody has settled yet; those that have ended until somebody notices. */
  holdsLive = 0;
  /** Holds that ended unsettled, and that a call has noticed. */
  holdsExpired = 0;
  /** Settlements of live holds. */
  settlements = 0;
  /** What was held and not used, and what was used and not held. */
  heldUnused = 0;
  usedUnheld = 0;
  /** Settlements that found no hold, because it had ended or was never opened: charged as reported. */
  settledLate = 0;
  /** Settlements of what was settled already: nothing. */
  settledAgain = 0;

  /** True if anything was asked of the limit that metrics tell. A settlement may come to another process than its payment. */
  get hasMoved(): boolean {
    return this.totalHits > 0 || this.settlements > 0 || this.settledLate > 0 || this.holdsExpired > 0;
  }
}

/** What people are shown of a rule's counters: hits since the start, or since the rule came in force. */
export interface RuleCount {
  readonly hits: number;
  readonly refused: number;
  /** Those of `refused` that passed because of shadow mode. */
  readonly shadowed: number;
}

/** Where stats of rules live over reloads. */
export interface StatsBook {
  /**
   * The stats of a rule, the same object for the same arguments.
   * `path` holds one element per level (`key`, or `key_value`), `limit` the limit's name or the empty string.
   */
  statsOf(domain: string, path: readonly string[], limit: string): LimitStats;
}

/** Where stats of single values live (`detailed_metric`, `value_to_metric`), in bounded number. */
export interface ValueStatsBook {
  /**
   * The stats of a rule for the values of one call: the same object for the same arguments, or those of `other` when
   * the rule has METRIC_VALUES_MAX values already. `ruleStats` are the rule's own; `path` is what `statsOf` would take.
   */
  statsOfValues(ruleStats: LimitStats, domain: string, path: readonly string[], limit: string): LimitStats;
}
