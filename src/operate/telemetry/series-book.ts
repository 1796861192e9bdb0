// Chooses which rules get series: the first METRIC_RULES_MAX of each domain that are hit. One series per domain has the sum of the
// others, so that sums over a domain stay right; also of rules whose labels are taken:
// `a` with `b_c`, and `a_b` with `c`.

import { getOrInsert } from "../../engine/base/get-or-insert.ts";
import { Mark, type SharedCounts } from "../../engine/base/shared-counts.ts";
import { LIMIT_COUNTERS, LimitStats } from "../../engine/domain/stats.ts";
import { type LimitStatsBook, labelsOf, type StatsEntry } from "./stats-book.ts";

/** The path and the limit's name of a domain's series for all other rules. No rule has an empty key, and no limit such a name. */
const OTHER_RULES = { path: ["", "(other rules)"], name: "(other rules)" };

/** An entry that has a series, or is summed, stays so in all threads as long as its rule exists: series that come and go would jump. */
export class SeriesBook {
  readonly #book: LimitStatsBook;
  readonly #counts: SharedCounts;
  readonly #rulesMax: number;
  /** The sums of other rules, by domain. */
  readonly #others = new Map<string, StatsEntry>();

  /** `rulesMax` (METRIC_RULES_MAX): most series of a domain, without the one of the other rules. */
  constructor(book: LimitStatsBook, counts: SharedCounts, rulesMax: number) {
    this.#book = book;
    this.#counts = counts;
    this.#rulesMax = rulesMax;
  }

  /** What is exported, no labels twice: for each domain its series, then the other rules. */
  *entries(): Generator<StatsEntry> {
    const domains = new Map<string, StatsEntry[]>();
    for (const entry of this.#book.entries()) getOrInsert(domains, entry.domain, () => []).push(entry);
    for (const domain of this.#others.keys()) if (!domains.has(domain)) this.#others.delete(domain);
    for (const entries of domains.values()) {
      if (entries.some((entry) => this.#isNew(entry))) this.#counts.locked(() => this.#place(entries));
    }
    this.#addUp(domains);
    for (const [domain, entries] of domains) {
      for (const entry of entries) if (this.#markOf(entry) === Mark.own) yield entry;
      const others = this.#others.get(domain);
      if (others !== undefined) yield others;
    }
  }

  #markOf({ at }: StatsEntry): Mark {
    return at === undefined ? Mark.summed : this.#counts.markOf(at);
  }

  #isNew(entry: StatsEntry): boolean {
    return this.#markOf(entry) === Mark.none && entry.stats.hasMoved;
  }

  #place(entries: readonly StatsEntry[]): void {
    const own = new Set(entries.filter((entry) => this.#markOf(entry) === Mark.own).map(({ labels }) => labels));
    for (const entry of entries) {
      if (entry.at === undefined || !this.#isNew(entry)) continue;
      const isOwn = !own.has(entry.labels) && own.size < this.#rulesMax;
      this.#counts.mark(entry.at, isOwn ? Mark.own : Mark.summed);
      if (isOwn) own.add(entry.labels);
    }
  }

  // Under the lock, because what a summed rule has counted moves to the domain's heir when the rule goes.
  #addUp(domains: ReadonlyMap<string, readonly StatsEntry[]>): void {
    this.#counts.locked(() => {
      const summed = this.#counts.summed();
      for (const [domain, entries] of domains) {
        const heir = this.#book.heirOf(domain);
        const parts = (heir === undefined ? undefined : summed.get(heir)) ?? [];
        const alone = entries.filter(({ at, stats }) => at === undefined && stats.hasMoved);
        const others = this.#others.get(domain) ?? othersOf(domain);
        this.#sum(others.stats, heir, parts, alone);
        if (parts.length + alone.length > 0 || others.stats.hasMoved) this.#others.set(domain, others);
        else this.#others.delete(domain);
      }
    });
  }

  #sum(into: LimitStats, heir: number | undefined, parts: readonly number[], alone: readonly StatsEntry[]): void {
    for (const [i, field] of LIMIT_COUNTERS.entries()) {
      // Live holds go with their rule: nothing would count them down any more.
      const inherited = heir === undefined || field === "holdsLive" ? 0 : (this.#counts.common[heir + i] as number);
      into[field] = alone.reduce((sum, { stats }) => sum + stats[field], inherited);
      for (const part of parts) for (const row of this.#counts.rows) into[field] += row[part + i] as number;
    }
  }
}

function othersOf(domain: string): StatsEntry {
  const labels = labelsOf(domain, OTHER_RULES.path, OTHER_RULES.name);
  return { domain, path: OTHER_RULES.path, labels, stats: new LimitStats(), at: undefined };
}
