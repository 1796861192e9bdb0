// Chooses which rules get series: the first METRIC_RULES_MAX of each domain that are hit. One series per domain has the
// sum of the others, so that sums over a domain stay right; also of rules whose labels are taken: `a` with `b_c`, and
// `a_b` with `c`.

import { getOrInsert } from "../../base/get-or-insert.ts";
import { LimitStats } from "../../engine/domain/stats.ts";
import { type LimitStatsBook, type StatsEntry, seriesLabelsOf } from "./stats-book.ts";

/**
 * The path and the limit's name of a domain's series for all other rules. No rule has an empty key, and no limit such a
 * name.
 */
const OTHER_RULES = { path: ["", "(other rules)"], name: "(other rules)" };

/**
 * An entry that has a series, or is summed, stays so as long as its rule exists: series that come and go would jump.
 */
export class SeriesBook {
  readonly #book: LimitStatsBook;
  readonly #rulesMax: number;

  /** `rulesMax` (METRIC_RULES_MAX): most series of a domain, without the one of the other rules. */
  constructor(book: LimitStatsBook, rulesMax: number) {
    this.#book = book;
    this.#rulesMax = rulesMax;
  }

  /** What is exported, no labels twice: for each domain its series, then the other rules. */
  *entries(): Generator<StatsEntry> {
    const domains = new Map<string, StatsEntry[]>();
    for (const entry of this.#book.entries()) getOrInsert(domains, entry.domain, () => []).push(entry);
    for (const [domain, entries] of domains) {
      this.#choose(entries);
      for (const entry of entries) if (entry.series === "own") yield entry;
      const others = this.#othersOf(domain, entries);
      if (others.stats.hasMoved) yield others;
    }
  }

  #choose(entries: readonly StatsEntry[]): void {
    const own = new Set(entries.filter(({ series }) => series === "own").map(({ labels }) => labels));
    for (const entry of entries) {
      if (entry.series !== undefined || !entry.stats.hasMoved) continue;
      const isOwn = !own.has(entry.labels) && own.size < this.#rulesMax;
      entry.series = isOwn ? "own" : "summed";
      if (isOwn) own.add(entry.labels);
    }
  }

  #othersOf(domain: string, entries: readonly StatsEntry[]): StatsEntry {
    const stats = new LimitStats();
    const gone = this.#book.goneOf(domain);
    if (gone !== undefined) stats.add(gone);
    for (const entry of entries) if (entry.series === "summed") stats.add(entry.stats);
    const { path, name } = OTHER_RULES;
    return { domain, path, labels: seriesLabelsOf(domain, path, name), stats, series: "own" };
  }
}
