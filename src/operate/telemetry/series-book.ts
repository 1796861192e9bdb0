// Chooses the counters of rules that get series of their own: those that were hit, the first METRIC_RULES_MAX of each domain. The
// others are summed in one series per domain, so that sums over a domain stay right; so are those whose labels another one has:
// `a` with `b_c`, and `a_b` with `c`.

import { LimitStats } from "../../engine/domain/stats.ts";
import { type LimitStatsBook, labelsOf, type StatsEntry } from "./stats-book.ts";

/** The path of a domain's series for all other rules. No rule has this path: its first key is empty. */
const OTHER_RULES = ["", "(other rules)"];

type Field = Exclude<keyof LimitStats, "hasMoved">;

/** Entries of rules to be exported. */
export interface SeriesSource {
  entries(): Iterator<StatsEntry> & Iterable<StatsEntry>;
}

/** Entries that are added up in one series. */
class Sum {
  readonly #entry: StatsEntry;
  readonly #parts = new Set<LimitStats>();
  /** The counts of parts that a reload removed: a falling sum looks like a restart. */
  readonly #dropped = new LimitStats();

  constructor({ domain, path, labels }: Omit<StatsEntry, "stats">) {
    this.#entry = { domain, path, labels, stats: new LimitStats() };
  }

  get size(): number {
    return this.#parts.size;
  }

  get isEmpty(): boolean {
    return this.#parts.size === 0 && !this.#dropped.hasMoved;
  }

  has(stats: LimitStats): boolean {
    return this.#parts.has(stats);
  }

  add(stats: LimitStats): void {
    this.#parts.add(stats);
  }

  forgetAllBut(kept: ReadonlySet<LimitStats>): void {
    for (const stats of this.#parts) {
      if (kept.has(stats)) continue;
      this.#parts.delete(stats);
      add(this.#dropped, stats);
    }
    // Live holds go with their rule: nothing would count them down any more.
    this.#dropped.holdsLive = 0;
  }

  /** The entry with what its parts have counted by now; the same object each time. */
  addUp(): StatsEntry {
    const { stats } = this.#entry;
    for (const field of fieldsOf(stats)) stats[field] = this.#dropped[field];
    for (const part of this.#parts) add(stats, part);
    return this.#entry;
  }
}

interface DomainSeries {
  /** By their labels. */
  readonly own: Map<string, StatsEntry>;
  readonly others: Sum;
}

/** An entry that has a series, or is summed, stays so as long as its rule exists: series that come and go would jump. */
export class SeriesBook implements SeriesSource {
  readonly #book: LimitStatsBook;
  readonly #rulesMax: number;
  readonly #domains = new Map<string, DomainSeries>();

  /** `rulesMax` (METRIC_RULES_MAX): most series of a domain beside that of the other rules. */
  constructor(book: LimitStatsBook, rulesMax: number) {
    this.#book = book;
    this.#rulesMax = rulesMax;
  }

  /** What is exported, no labels twice: for each domain its series in the order in which they were first hit, then the other rules. */
  *entries(): Generator<StatsEntry> {
    // All are placed first: the last entry may have the labels of the first one.
    for (const entry of this.#book.entries()) if (entry.stats.hasMoved) this.#place(entry);
    for (const { own, others } of this.#domains.values()) {
      yield* own.values();
      if (!others.isEmpty) yield others.addUp();
    }
  }

  /** Forgets entries that the book has dropped; to be called after a reload. */
  forgetDropped(): void {
    const kept = new Set<LimitStats>();
    for (const { stats } of this.#book.entries()) kept.add(stats);
    for (const [domain, { own, others }] of this.#domains) {
      for (const [labels, { stats }] of own) if (!kept.has(stats)) own.delete(labels);
      others.forgetAllBut(kept);
      if (own.size + others.size === 0) this.#domains.delete(domain);
    }
  }

  #place(entry: StatsEntry): void {
    const { labels, stats } = entry;
    const { own, others } = this.#seriesOf(entry.domain);
    if (own.get(labels) === entry || others.has(stats)) return;
    if (!own.has(labels) && own.size < this.#rulesMax) own.set(labels, entry);
    else others.add(stats);
  }

  #seriesOf(domain: string): DomainSeries {
    let series = this.#domains.get(domain);
    if (series === undefined) {
      const labels = labelsOf(domain, OTHER_RULES, "");
      series = { own: new Map(), others: new Sum({ domain, path: OTHER_RULES, labels }) };
      this.#domains.set(domain, series);
    }
    return series;
  }
}

function add(to: LimitStats, stats: LimitStats): void {
  for (const field of fieldsOf(to)) to[field] += stats[field];
}

function fieldsOf(stats: LimitStats): Field[] {
  return Object.keys(stats) as Field[]; // its getters are none of them
}
