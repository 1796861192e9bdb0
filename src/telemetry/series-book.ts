// Chooses the counters of rules that get series of their own: those that were hit, the first METRIC_RULES_MAX of each domain. The
// others are summed in one series per domain, so that sums over a domain stay right.

import { LimitStats } from "../core/limit-stats.ts";
import { type LimitStatsBook, labelsOf, type StatsEntry } from "./stats-book.ts";

/** The path of a domain's series for all other rules. No rule has this path: its first key is empty. */
const OTHER_RULES = ["", "(other rules)"];

type Field = Exclude<keyof LimitStats, "hasMoved">;

/** Entries of rules to be exported. */
export interface SeriesSource {
  entries(): Iterator<StatsEntry> & Iterable<StatsEntry>;
}

interface DomainSeries {
  /** Entries with series of their own. */
  readonly own: Set<LimitStats>;
  /** Entries that are summed. `dropped` keeps the counts of those that a reload removed: a falling sum looks like a restart. */
  readonly others: Set<LimitStats>;
  readonly dropped: LimitStats;
  readonly entry: StatsEntry;
}

/** An entry that has a series, or is summed, stays so as long as its rule exists: series that come and go would jump. */
export class SeriesBook implements SeriesSource {
  readonly #book: LimitStatsBook;
  readonly #rulesMax: number;
  readonly #domains = new Map<string, DomainSeries>();

  /** `rulesMax` (METRIC_RULES_MAX): most entries of a domain with series of their own. */
  constructor(book: LimitStatsBook, rulesMax: number) {
    this.#book = book;
    this.#rulesMax = rulesMax;
  }

  /** The entries with series, in the order in which rules appeared; then the sums of other rules. */
  *entries(): Generator<StatsEntry> {
    for (const entry of this.#book.entries()) if (this.#hasSeries(entry)) yield entry;
    for (const series of this.#domains.values()) {
      if (series.others.size === 0 && !series.dropped.hasMoved) continue;
      addUp(series);
      yield series.entry;
    }
  }

  /** Forgets entries that the book has dropped; to be called after a reload. */
  forgetDropped(): void {
    const kept = new Set<LimitStats>();
    for (const { stats } of this.#book.entries()) kept.add(stats);
    for (const [domain, { own, others, dropped }] of this.#domains) {
      for (const stats of own) if (!kept.has(stats)) own.delete(stats);
      for (const stats of others) {
        if (kept.has(stats)) continue;
        others.delete(stats);
        add(dropped, stats);
      }
      // Live holds go with their rule: nothing would count them down any more.
      dropped.holdsLive = 0;
      if (own.size + others.size === 0) this.#domains.delete(domain);
    }
  }

  #hasSeries({ domain, stats }: StatsEntry): boolean {
    if (!stats.hasMoved) return false;
    const series = this.#seriesOf(domain);
    if (series.own.has(stats)) return true;
    if (series.others.has(stats)) return false;
    const hasRoom = series.own.size < this.#rulesMax;
    (hasRoom ? series.own : series.others).add(stats);
    return hasRoom;
  }

  #seriesOf(domain: string): DomainSeries {
    let series = this.#domains.get(domain);
    if (series === undefined) {
      const labels = labelsOf(domain, OTHER_RULES, "");
      const entry = { domain, path: OTHER_RULES, labels, stats: new LimitStats() };
      series = { own: new Set(), others: new Set(), dropped: new LimitStats(), entry };
      this.#domains.set(domain, series);
    }
    return series;
  }
}

function addUp({ entry, others, dropped }: DomainSeries): void {
  for (const field of fieldsOf(entry.stats)) entry.stats[field] = dropped[field];
  for (const stats of others) add(entry.stats, stats);
}

function add(to: LimitStats, stats: LimitStats): void {
  for (const field of fieldsOf(to)) to[field] += stats[field];
}

function fieldsOf(stats: LimitStats): Field[] {
  return Object.keys(stats) as Field[]; // its getters are none of them
}
