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
    this.#addValues([...book.rules()].map(({ labels }) => labels));
  }

  of(ruleStats: LimitStats): RuleCount {
    const [rule] = this.#book.entriesOf(ruleStats);
    return this.#byLabels.get(rule?.labels ?? "") ?? NONE;
  }

  #addValues(rules: readonly string[]): void {
    const known = new Set(rules);
    const ofValues = [...this.#byLabels].filter(([labels]) => !known.has(labels));
    if (ofValues.length === 0) return;
    const tree = new RuleTree();
    for (const labels of rules) tree.add(labels);
    for (const [labels, count] of ofValues) {
      const rule = tree.ruleOf(labels);
      if (rule !== undefined) this.#add(rule, count);
    }
  }

  #add(labels: string, count: RuleCount): void {
    this.#byLabels.set(labels, addCounts(this.#byLabels.get(labels) ?? NONE, count));
  }
}

interface Branch {
  readonly next: Map<string, Branch>;
  /** Of the rule whose path ends here. */
  labels: string | undefined;
}

/** Rules by domain, limit and the elements of their paths. All text as labels have it, escapes included. */
class RuleTree {
  readonly #root = emptyBranch();

  add(labels: string): void {
    let branch = this.#root;
    for (const step of stepsOf(labels)) {
      const next = branch.next.get(step) ?? emptyBranch();
      branch.next.set(step, next);
      branch = next;
    }
    branch.labels = labels;
  }

  /** The rule that the labels name a value of: the one that has most in common with them. */
  ruleOf(labels: string): string | undefined {
    const [domain = "", limit = "", ...path] = stepsOf(labels);
    const branch = this.#root.next.get(domain)?.next.get(limit);
    return branch === undefined ? undefined : findRule(branch, path, 0);
  }
}

function emptyBranch(): Branch {
  return { next: new Map(), labels: undefined };
}

// A value may have slashes in it, as elements of paths have between them.
function findRule(branch: Branch, path: readonly string[], from: number): string | undefined {
  if (from === path.length) return branch.labels;
  for (let to = from + 1; to <= path.length; to++) {
    for (const element of elementsOf(path.slice(from, to).join("/"))) {
      const next = branch.next.get(element);
      const found = next === undefined ? undefined : findRule(next, path, to);
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

/** What the element of a rule may be whose value reads like this: the whole, or what stands before a `_`, the longest first. */
function* elementsOf(text: string): Generator<string> {
  yield text;
  for (let at = text.lastIndexOf("_"); at > 0; at = text.lastIndexOf("_", at - 1)) yield text.slice(0, at);
}

const TEXT = String.raw`[^"\\]*(?:\\.[^"\\]*)*`;
const LABELS = new RegExp(`^domain="(${TEXT})",key1="${TEXT}",key2="${TEXT}",rule="(${TEXT})",limit="(${TEXT})"$`, "s");

function stepsOf(labels: string): readonly string[] {
  const [, domain = "", rule = "", limit = ""] = LABELS.exec(labels) ?? [];
  return [domain, limit, ...rule.split("/")];
}
