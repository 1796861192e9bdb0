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

/** Of more rules none gets what its values have counted: looking for them would hold up calls. */
const RULES_WITH_VALUES_MAX = 2_000;

/**
 * What all workers have counted, found by the labels of their series. Series of a rule's values are told by their beginnings, for
 * one worker does not know the values that others have seen. What METRIC_RULES_MAX adds up as other rules is in none of them.
 */
export class FleetRuleCounts {
  readonly #book: LimitStatsBook;
  readonly #byLabels = new Map<string, RuleCount>();

  constructor(values: SeriesValues, book: LimitStatsBook) {
    this.#book = book;
    for (const [field, metric] of Object.entries(FIELDS)) {
      for (const [series, value] of Object.entries(values[metric] ?? {})) {
        this.#add(series.slice(metric.length + 1, -1), { ...NONE, [field]: value });
      }
    }
    if (book.ruleCount <= RULES_WITH_VALUES_MAX) this.#addValues([...book.rules()].map(({ labels }) => labels));
  }

  of(ruleStats: LimitStats): RuleCount {
    const [rule] = this.#book.entriesOf(ruleStats);
    return this.#byLabels.get(rule?.labels ?? "") ?? NONE;
  }

  #addValues(rules: readonly string[]): void {
    const known = new Set(rules);
    const ofValues = [...this.#byLabels].filter(([labels]) => !known.has(labels));
    if (ofValues.length === 0) return;
    const named = rules.map((labels) => ({ labels, name: namedBy(labels) }));
    for (const [labels, count] of ofValues) {
      const value = namedBy(labels);
      const rule = named.find(({ name }) => isValueOf(value, name));
      if (rule !== undefined) this.#add(rule.labels, count);
    }
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
