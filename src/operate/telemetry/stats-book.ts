// The counters of every rule, kept over reloads. Bounded: callers' values make at most METRIC_VALUES_MAX entries per
// rule, and long values are cut. series-book.ts chooses the entries that get series.

import { getOrInsert } from "../../base/get-or-insert.ts";
import type { LongWork } from "../../base/long-work.ts";
import { showable, textOf } from "../../engine/domain/request.ts";
import { LimitStats, type StatsBook, type ValueStatsBook } from "../../engine/domain/stats.ts";
import { shortText } from "./short-text.ts";

/** Most entries for callers' values in all, however high METRIC_VALUES_MAX is. */
export const VALUE_ENTRIES_MAX = 20_000;

/** All further values of a rule count under this one; so do callers who send it. */
const OTHER_VALUES = "other";

/** The counters of one rule, or of one value of a rule, with their exported labels: `domain="edge",key1=...`. */
export interface StatsEntry {
  /** One-byte text. */
  readonly domain: string;
  /** One element per level of the rule, in one-byte text. */
  readonly path: readonly string[];
  readonly labels: string;
  readonly stats: LimitStats;
  /** Whether it has a series of its own or is summed with others (series-book.ts); undefined until it is hit. */
  series: "own" | "summed" | undefined;
}

/** A limit in the text of the labels, one-byte. */
export interface RuleLabels {
  readonly domain: string;
  readonly rule: string;
  readonly limit: string;
}

interface RuleEntry extends StatsEntry {
  readonly key: string;
  readonly owner: RuleLabels;
  /** Entries of this rule's values by their path. */
  readonly values: Map<string, StatsEntry>;
  /** The set of rules that last had it, or asked for it, by its number. */
  set: number;
}

/** Keeps LimitStats by rule. All given text is one-byte (engine/domain/request.ts). */
export class LimitStatsBook implements StatsBook, ValueStatsBook {
  readonly #valuesMax: number;
  readonly #rules = new Map<string, RuleEntry>();
  readonly #ruleOf = new Map<LimitStats, RuleEntry>();
  /** By domain: how many rules it has, and what summed ones that are gone have counted. */
  readonly #domains = new Map<string, { rules: number; readonly gone: LimitStats }>();
  #valueEntries = 0;
  /** Number of the set in force. */
  #set = 0;

  /** `valuesMax` (METRIC_VALUES_MAX): most values of callers kept per rule. */
  constructor(valuesMax: number) {
    this.#valuesMax = valuesMax;
  }

  statsOf(domain: string, path: readonly string[], limit: string): LimitStats {
    const key = joined([domain, limit, ...path]);
    let entry = this.#rules.get(key);
    if (entry === undefined) {
      getOrInsert(this.#domains, domain, () => ({ rules: 0, gone: new LimitStats() })).rules++;
      entry = {
        key,
        domain,
        path: [...path],
        owner: { domain, rule: path.join("/"), limit },
        labels: seriesLabelsOf(domain, path, limit),
        stats: new LimitStats(),
        series: undefined,
        values: new Map(),
        set: this.#set,
      };
      this.#rules.set(key, entry);
      this.#ruleOf.set(entry.stats, entry);
    }
    entry.set = this.#set;
    return entry.stats;
  }

  /** The counters that `statsOf` returned, if they are still kept. */
  find(domain: string, path: readonly string[], limit: string): LimitStats | undefined {
    return this.#rules.get(joined([domain, limit, ...path]))?.stats;
  }

  statsOfValues(ruleStats: LimitStats, path: readonly string[]): LimitStats {
    const rule = this.#ruleOf.get(ruleStats);
    // A reload has dropped the rule while this call was under way; its counters are no longer shown.
    if (rule === undefined) return ruleStats;
    const key = joined(path);
    const known = rule.values.get(key);
    if (known !== undefined) return known.stats;
    // Bytes that are not UTF-8 are shown, and so counted, as replacement characters, and long values as their beginning
    // and a hash.
    const shown = path.map((element) => shortText(showable(element)));
    return this.#valueOf(rule, shown) ?? this.#valueOf(rule, otherPath(rule.path)) ?? ruleStats;
  }

  /** What rules of the domain that are gone have counted, those that were summed. */
  goneOf(domain: string): LimitStats | undefined {
    return this.#domains.get(domain)?.gone;
  }

  /** The counters of a value; undefined if it is new and there is no room for it. */
  #valueOf(rule: RuleEntry, shown: readonly string[]): LimitStats | undefined {
    const key = joined(shown);
    const known = rule.values.get(key);
    if (known !== undefined) return known.stats;
    const mayAdd = this.#hasRoom(rule) || key === joined(otherPath(rule.path));
    return mayAdd ? this.#addValue(rule, key, shown) : undefined;
  }

  #hasRoom({ values }: RuleEntry): boolean {
    return values.size < this.#valuesMax && this.#valueEntries < VALUE_ENTRIES_MAX;
  }

  #addValue(rule: RuleEntry, key: string, path: readonly string[]): LimitStats {
    const { domain, limit } = rule.owner;
    const stats = new LimitStats();
    const entry = { domain, path: [...path], labels: seriesLabelsOf(domain, path, limit), stats, series: undefined };
    rule.values.set(key, entry);
    rule.stats.values ??= [];
    rule.stats.values.push(stats);
    this.#valueEntries++;
    return stats;
  }

  /** The limit that these counters belong to; undefined for dropped limits and for single values. */
  ownerOf(stats: LimitStats): RuleLabels | undefined {
    return this.#ruleOf.get(stats)?.owner;
  }

  /**
   * Drops the counters of rules, and of their values, that are not in `inUse`: the counters of the set in force from
   * now on. Keeps what the next set asks for meanwhile. The work for one set must be done before the work for the next
   * begins.
   */
  retainOnly(inUse: Iterable<LimitStats>): LongWork<void> {
    return this.#dropBefore(++this.#set, inUse);
  }

  *#dropBefore(set: number, inUse: Iterable<LimitStats>): LongWork<void> {
    for (const stats of inUse) {
      yield;
      const entry = this.#ruleOf.get(stats);
      if (entry !== undefined) entry.set = Math.max(entry.set, set);
    }
    for (const entry of this.#rules.values()) {
      yield;
      if (entry.set < set) this.#drop(entry);
    }
  }

  #drop(entry: RuleEntry): void {
    this.#valueEntries -= entry.values.size;
    this.#rules.delete(entry.key);
    this.#ruleOf.delete(entry.stats);
    const domain = this.#domains.get(entry.domain);
    if (domain === undefined) return;
    for (const { series, stats } of entriesOfRule(entry)) if (series === "summed") domain.gone.add(stats);
    // Nothing would count them down any more.
    domain.gone.holdsLive = 0;
    if (--domain.rules === 0) this.#domains.delete(entry.domain);
  }

  /**
   * All entries, in the order in which rules appeared. Some may have equal labels: `a` with `b_c`, and `a_b` with `c`.
   */
  *entries(): Generator<StatsEntry> {
    for (const rule of this.#rules.values()) yield* entriesOfRule(rule);
  }
}

function* entriesOfRule(rule: RuleEntry): Generator<StatsEntry> {
  yield rule;
  yield* rule.values.values();
}

function otherPath(path: readonly string[]): readonly string[] {
  return [...path.slice(0, -1), `${path.at(-1) ?? ""}_${OTHER_VALUES}`];
}

// Each part follows its length, so different lists of parts never give the same text.
function joined(parts: readonly string[]): string {
  let text = "";
  for (const part of parts) text += `${part.length}:${part}`;
  return text;
}

/** The labels of an entry in Prometheus's text format; the arguments are one-byte text. */
export function seriesLabelsOf(domain: string, path: readonly string[], limit: string): string {
  const label = (name: string, oneByte: string) => labelText(name, textOf(oneByte));
  return [
    label("domain", domain),
    label("key1", path[0] ?? ""),
    label("key2", path[1] ?? ""),
    label("rule", path.join("/").replace(/^\//, "")),
    label("limit", limit),
  ].join(",");
}

/** A label with its value, escaped as Prometheus's text format asks. */
export function labelText(name: string, value: string): string {
  return `${name}="${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`;
}
