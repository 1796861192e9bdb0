// The counters of every rule, kept over reloads. Bounded: callers' values make at most METRIC_VALUES_MAX entries per rule, and long
// values are cut. series-book.ts chooses the entries that get series.

import { showable, textOf } from "../../engine/domain/request.ts";
import { LimitStats, type StatsBook, type ValueStatsBook } from "../../engine/domain/stats.ts";
import { shortText } from "./short-text.ts";

/** Most entries for callers' values in all, however high METRIC_VALUES_MAX is. */
export const VALUE_ENTRIES_MAX = 20_000;

/** The value under which all further values of a rule are counted, with those of callers who send it. */
const OTHER_VALUES = "other";

/** The counters of one rule, or of one value of a rule, with their exported labels: `domain="edge",key1=...`. */
export interface StatsEntry {
  /** One-byte text. */
  readonly domain: string;
  /** One element per level of the rule, in one-byte text. */
  readonly path: readonly string[];
  readonly labels: string;
  readonly stats: LimitStats;
}

/** A limit in the text of the labels, one-byte. */
interface StatsOwner {
  readonly domain: string;
  readonly rule: string;
  readonly limit: string;
}

interface RuleEntry extends StatsEntry {
  readonly owner: StatsOwner;
  /** Entries of this rule's values by their path. */
  readonly values: Map<string, StatsEntry>;
}

/** Keeps LimitStats by rule. All given text is one-byte (engine/domain/request.ts). */
export class LimitStatsBook implements StatsBook, ValueStatsBook {
  readonly #valuesMax: number;
  readonly #rules = new Map<string, RuleEntry>();
  readonly #ruleOf = new Map<LimitStats, RuleEntry>();
  #valueEntries = 0;

  /** `valuesMax` (METRIC_VALUES_MAX): most values of callers kept per rule. */
  constructor(valuesMax: number) {
    this.#valuesMax = valuesMax;
  }

  statsOf(domain: string, path: readonly string[], limit: string): LimitStats {
    const key = joined([domain, limit, ...path]);
    let entry = this.#rules.get(key);
    if (entry === undefined) {
      entry = {
        domain,
        path: [...path],
        owner: { domain, rule: path.join("/"), limit },
        labels: labelsOf(domain, path, limit),
        stats: new LimitStats(),
        values: new Map(),
      };
      this.#rules.set(key, entry);
      this.#ruleOf.set(entry.stats, entry);
    }
    return entry.stats;
  }

  /** The counters that `statsOf` has given out and that are kept; undefined if there are none. */
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
    // Bytes that are not UTF-8 are shown, and so counted, as replacement characters, and long values as their beginning and a hash.
    const shown = path.map((element) => shortText(showable(element)));
    const shownKey = joined(shown);
    const alike = shownKey === key ? undefined : rule.values.get(shownKey);
    if (alike !== undefined) return alike.stats;
    if (rule.values.size < this.#valuesMax && this.#valueEntries < VALUE_ENTRIES_MAX) {
      return this.#addValue(rule, shownKey, shown);
    }
    const other = otherPath(rule.path);
    const otherKey = joined(other);
    return rule.values.get(otherKey)?.stats ?? this.#addValue(rule, otherKey, other);
  }

  #addValue(rule: RuleEntry, key: string, path: readonly string[]): LimitStats {
    const { domain, limit } = rule.owner;
    const entry = { domain, path: [...path], labels: labelsOf(domain, path, limit), stats: new LimitStats() };
    rule.values.set(key, entry);
    this.#valueEntries++;
    return entry.stats;
  }

  /** The limit that these counters belong to; undefined for dropped limits and for single values. */
  ownerOf(stats: LimitStats): StatsOwner | undefined {
    return this.#ruleOf.get(stats)?.owner;
  }

  /** Drops the counters of rules that are not in `inUse`, with those of their values; to be called after a reload. */
  retainOnly(inUse: ReadonlySet<LimitStats>): void {
    for (const [key, entry] of this.#rules) {
      if (inUse.has(entry.stats)) continue;
      this.#valueEntries -= entry.values.size;
      this.#rules.delete(key);
      this.#ruleOf.delete(entry.stats);
    }
  }

  /** All entries, in the order in which rules appeared. Some may have equal labels: `a` with `b_c`, and `a_b` with `c`. */
  *entries(): Generator<StatsEntry> {
    for (const rule of this.#rules.values()) yield* entriesOfRule(rule);
  }

  /** The entries of rules themselves, without their values. */
  rules(): Iterable<StatsEntry> {
    return this.#rules.values();
  }

  /** The entries of one rule and of its values; none if a reload has dropped the rule. */
  *entriesOf(ruleStats: LimitStats): Generator<StatsEntry> {
    const rule = this.#ruleOf.get(ruleStats);
    if (rule !== undefined) yield* entriesOfRule(rule);
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
export function labelsOf(domain: string, path: readonly string[], limit: string): string {
  const label = (name: string, oneByte: string) => labelText(name, textOf(oneByte));
  return [
    label("domain", domain),
    label("key1", path[0] ?? ""),
    label("key2", path[1] ?? ""),
    label("rule", path.join("/")),
    label("limit", limit),
  ].join(",");
}

/** A label with its value, escaped as Prometheus's text format asks. */
export function labelText(name: string, value: string): string {
  return `${name}="${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`;
}
