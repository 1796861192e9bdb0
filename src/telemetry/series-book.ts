// Which counters of rules have series of their own in Prometheus's format: those that were hit, the first METRIC_RULES_MAX
// of each domain. What further ones count is added up in one series per domain, so that sums over a domain stay right.

import { LimitStats } from "../core/limit-stats.ts";
import { type LimitStatsBook, labelsOf, type StatsEntry } from "./stats-book.ts";

/** The path of the series that stands for all further rules of a domain. No rule has it: its first key is empty. */
const OTHER_RULES = ["", "(other rules)"];

type Field = Exclude<keyof LimitStats, "hasMoved">;

/** Entries of rules to be shown. */
export interface SeriesSource {
  entries(): Iterator<StatsEntry> & Iterable<StatsEntry>;
}

interface DomainSeries {
  /** Entries with series of their own. */
  readonly own: Set<LimitStats>;
  /** Entries that are added up, and what those had counted that a reload has dropped: a sum that falls looks like a restart. */
  readonly others: Set<LimitStats>;
  readonly dropped: LimitStats;
  readonly entry: StatsEntry;
}

/** Once an entry has a series, or is added up, it stays so as long as its rule does: series that come and go would jump. */
export class SeriesBook implements SeriesSource {
  readonly #book: LimitStatsBook;
  readonly #rulesMax: number;
  readonly #domains = new Map<string, DomainSeries>();

  /** `rulesMax`: most entries of a domain with series of their own (METRIC_RULES_MAX). */
  constructor(book: LimitStatsBook, rulesMax: number) {
    this.#book = book;
    this.#rulesMax = rulesMax;
  }

  /** What has series, in the order in which rules came to be; the sums of further rules last. */
  *entries(): Generator<StatsEntry> {
    for (const entry of this.#book.entries()) if (this.#hasSeries(entry)) yield entry;
    for (const series of this.#domains.values()) {
      if (series.others.size === 0 && !series.dropped.hasMoved) continue;
      addUp(series);
      yield series.entry;
    }
  }

  /** Forgets what the book has dropped. For after a reload. */
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
      // What lives goes with its rule: nobody would count it down.
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
