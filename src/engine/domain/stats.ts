// Counters of rules, with the reference service's meanings, and of descriptors that met no rule.

import type { ReportTurns } from "./report-turns.ts";

/** What one limit has decided so far. In hits unless a comment says otherwise; all but `holdsLive` only grow. */
export class LimitStats {
  totalHits = 0;
  withinLimit = 0;
  nearLimit = 0;
  overLimit = 0;
  overLimitWithLocalCache = 0;
  shadowMode = 0;
  /** The part of `overLimit` that `on_store_failure: deny` refused, because the store did not answer. */
  deniedUnanswered = 0;
  /**
   * Descriptors that match the limit but take no hits from it: they peek, or bring their own limit. No metric shows it.
   */
  withoutHits = 0;
  /** Holds opened by payments, in holds, as are the counters of holds and settlements below. */
  holdsOpened = 0;
  /** Live holds in this process's memory. Holds that have ended count until a call notices their end. */
  holdsLive = 0;
  /** Holds that ended unsettled, counted when a call notices their end. */
  holdsExpired = 0;
  /** Settlements of live holds. */
  settlements = 0;
  /** Settlements that found no hold, because it had ended or was never opened. What they report is charged. */
  settledLate = 0;
  /** Settlements of a hold that was settled already. They charge nothing. */
  settledAgain = 0;
  /** Sum over settlements of what was held beyond what was used, in cost. */
  heldUnused = 0;
  /** Sum over settlements of what was used beyond what was held, in cost. */
  usedUnheld = 0;
  /** The parts of `withinLimit` that a caller's guarantee covered, and that callers with one borrowed. */
  guaranteed = 0;
  borrowed = 0;
  /** The part of `overLimit` that a caller's guarantee covered: it was not kept. */
  guaranteeBroken = 0;
  /** True once a peek was answered. If refused hits above 1 follow, callers probably report after the fact. */
  wasPeeked = false;
  /** Undefined until a payment above 1 was refused. */
  turns: ReportTurns | undefined;
  /** Those of single values, which count in its place (ValueStatsBook). */
  values: LimitStats[] | undefined;

  /**
   * Grows with each change of a counter that metrics show. Settlements count too: their payments may have gone to
   * another process.
   */
  get #shown(): number {
    const hits = this.totalHits + this.withinLimit + this.nearLimit + this.overLimit;
    return hits + this.settlements + this.settledLate + this.settledAgain + this.holdsExpired;
  }

  /** True if any counter that metrics show has moved. */
  get hasMoved(): boolean {
    return this.#shown > 0;
  }

  /** Grows with each call that the limit applies to. */
  get matches(): number {
    const own = this.#shown + this.withoutHits;
    return this.values === undefined ? own : this.values.reduce((sum, { matches }) => sum + matches, own);
  }

  /** Adds what `other` has counted, its live holds included. By name, because a scrape adds up a hundred thousand. */
  add(other: LimitStats): void {
    this.totalHits += other.totalHits;
    this.withinLimit += other.withinLimit;
    this.nearLimit += other.nearLimit;
    this.overLimit += other.overLimit;
    this.overLimitWithLocalCache += other.overLimitWithLocalCache;
    this.shadowMode += other.shadowMode;
    this.deniedUnanswered += other.deniedUnanswered;
    this.withoutHits += other.withoutHits;
    this.holdsOpened += other.holdsOpened;
    this.holdsLive += other.holdsLive;
    this.holdsExpired += other.holdsExpired;
    this.settlements += other.settlements;
    this.settledLate += other.settledLate;
    this.settledAgain += other.settledAgain;
    this.heldUnused += other.heldUnused;
    this.usedUnheld += other.usedUnheld;
    this.guaranteed += other.guaranteed;
    this.borrowed += other.borrowed;
    this.guaranteeBroken += other.guaranteeBroken;
  }

  /** What was counted, with values. */
  count(): RuleCount {
    const own = { hits: this.totalHits, refused: this.overLimit, shadowed: this.shadowMode };
    return this.values === undefined ? own : this.values.map((one) => one.count()).reduce(sumOfCounts, own);
  }
}

/**
 * The counters of a limit that the operator's page shows, in hits since the process started or the rule came into
 * force.
 */
export interface RuleCount {
  readonly hits: number;
  readonly refused: number;
  /** The part of `refused` that passed because of shadow mode. */
  readonly shadowed: number;
}

export const NO_COUNT: RuleCount = { hits: 0, refused: 0, shadowed: 0 };

/** One of the two if the other has counted nothing. */
export function sumOfCounts(one: RuleCount, other: RuleCount): RuleCount {
  if (other.hits === 0 && other.refused === 0) return one;
  return {
    hits: one.hits + other.hits,
    refused: one.refused + other.refused,
    shadowed: one.shadowed + other.shadowed,
  };
}

/** Keeps the stats of rules across reloads. */
export interface StatsBook {
  /**
   * The stats of a rule, the same object for the same arguments.
   * `path` has one element per level (`key` or `key_value`); `limit` is the limit's name or the empty string.
   */
  statsOf(domain: string, path: readonly string[], limit: string): LimitStats;
}

/**
 * Keeps the stats of single values (`detailed_metric`, `value_to_metric`), of at most METRIC_VALUES_MAX values per
 * rule.
 */
export interface ValueStatsBook {
  /**
   * The stats of a rule for the values of one call: the same object for the same arguments. Once the rule has
   * METRIC_VALUES_MAX values, the stats of `other`. `ruleStats` are those that `statsOf` gave for the rule; `path` is
   * as there.
   */
  statsOfValues(ruleStats: LimitStats, path: readonly string[]): LimitStats;
}

/** Name of all domains without rules beyond those counted by name. No domain with rules has this name. */
export const OTHER_DOMAINS = "(other domains)";

/** What one domain has counted in addition to its limits. */
export class DomainStats {
  /** Descriptors that met no rule: they passed unlimited because no rule limits them or declares them unlimited. */
  descriptors = 0;
  /** Calls, while the domain has rules. */
  calls = 0;
  /** The part of them that had not all entries that the domain requires. */
  incomplete = 0;
  /**
   * Keys of a descriptor that met no rule in their order, one-byte. Empty until there was one, and for a domain without
   * rules.
   */
  exampleKeys: readonly string[] = [];
  /** Its values, which are never shown. */
  exampleValues: readonly string[] = [];
  /** True: the next descriptor becomes the example. Code that reports the example sets it to ask for a new one. */
  wantsExample = true;
}

/** Keeps these stats across reloads. */
export interface DomainStatsBook {
  /** The stats of a domain that has rules: the same object for the same domain (one-byte). */
  domainStatsOf(domain: string): DomainStats;
}

/** Counts a descriptor. Costs one addition, except when an example is wanted. */
export function countUnmatched(
  stats: DomainStats,
  { keys, values, entryCount }: { keys: readonly string[]; values: readonly string[]; entryCount: number },
): void {
  stats.descriptors++;
  if (!stats.wantsExample) return;
  stats.wantsExample = false;
  stats.exampleKeys = keys.slice(0, entryCount);
  stats.exampleValues = values.slice(0, entryCount);
}
