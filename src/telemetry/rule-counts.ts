// What the limits of rules have counted, values of callers added to their rule: of this process, or of all workers together.

import type { LimitStats, RuleCount } from "../core/limit-stats.ts";
import { RULE_METRICS } from "./metrics.ts";
import type { LimitStatsBook } from "./stats-book.ts";

/** Values of series by metric. */
export type SeriesValues = Readonly<Record<string, Readonly<Record<string, number>>>>;

const { totalHits, overLimit, shadowMode } = RULE_METRICS;
const FIELDS = { hits: totalHits.name, refused: overLimit.name, shadowed: shadowMode.name };

/** The metrics that `FleetRuleCounts` is made of. */
export const RULE_COUNT_METRICS: readonly string[] = Object.values(FIELDS);

/** Both together. */
export function addCounts(one: RuleCount, other: RuleCount): RuleCount {
  return {
    hits: one.hits + other.hits,
    refused: one.refused + other.refused,
    shadowed: one.shadowed + other.shadowed,
  };
}

const NONE: RuleCount = { hits: 0, refused: 0, shadowed: 0 };

/** What this process has counted on the rule that these counters are of. */
export function ownRuleCount(book: LimitStatsBook, ruleStats: LimitStats): RuleCount {
  let count = NONE;
  for (const { stats } of book.entriesOf(ruleStats)) {
    count = addCounts(count, { hits: stats.totalHits, refused: stats.overLimit, shadowed: stats.shadowMode });
  }
  return count;
}

interface Named {
  readonly domain: string;
  readonly rule: string;
  readonly limit: string;
}

/**
 * What all workers have counted, found by the labels of their series. Series of a rule's values are told by their beginnings, for
 * one worker does not know the values that others have seen. What METRIC_RULES_MAX adds up as other rules is in none of them.
 */
export class FleetRuleCounts {
  readonly #byLabels = new Map<string, RuleCount>();
  readonly #labelsOf = new Map<LimitStats, string>();

  constructor(values: SeriesValues, book: LimitStatsBook) {
    for (const [field, metric] of Object.entries(FIELDS)) {
      for (const [series, value] of Object.entries(values[metric] ?? {})) {
        this.#add(series.slice(metric.length + 1, -1), { ...NONE, [field]: value });
      }
    }
    const rules = [...book.rules()];
    for (const { stats, labels } of rules) this.#labelsOf.set(stats, labels);
    const known = new Set(this.#labelsOf.values());
    const named = rules.map(({ labels }) => ({ labels, name: namedBy(labels) }));
    for (const [labels, count] of [...this.#byLabels]) {
      if (known.has(labels)) continue;
      const name = namedBy(labels);
      const rule = named.find((one) => isValueOf(name, one.name));
      if (rule !== undefined) this.#add(rule.labels, count);
    }
  }

  of(ruleStats: LimitStats): RuleCount {
    return this.#byLabels.get(this.#labelsOf.get(ruleStats) ?? "") ?? NONE;
  }

  #add(labels: string, count: RuleCount): void {
    this.#byLabels.set(labels, addCounts(this.#byLabels.get(labels) ?? NONE, count));
  }
}

const LABELS = /^domain="((?:[^"\\]|\\.)*)",.*,rule="((?:[^"\\]|\\.)*)",limit="((?:[^"\\]|\\.)*)"$/s;

// As they are written, escapes included: they are compared with each other only.
function namedBy(labels: string): Named {
  const [, domain = "", rule = "", limit = ""] = LABELS.exec(labels) ?? [];
  return { domain, rule, limit };
}

function isValueOf(value: Named, rule: Named): boolean {
  if (value.domain !== rule.domain || value.limit !== rule.limit) return false;
  const [values, elements] = [value.rule.split("/"), rule.rule.split("/")];
  return values.length === elements.length && elements.every((element, i) => values[i]?.startsWith(element));
}
