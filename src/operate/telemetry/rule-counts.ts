// The counters of rules, with the values of callers added to their rule: of this process, or of all workers.

import type { LimitStats, RuleCount } from "../../engine/domain/stats.ts";
import { RULE_METRICS } from "./metrics.ts";
import type { LimitStatsBook } from "./stats-book.ts";

/** Values of series by metric. */
export type SeriesValues = Readonly<Record<string, Readonly<Record<string, number>>>>;

const { totalHits, overLimit, shadowMode } = RULE_METRICS;
const FIELDS = { hits: totalHits.name, refused: overLimit.name, shadowed: shadowMode.name };

/** The metrics that `FleetRuleCounts` is made of. */
export const RULE_COUNT_METRICS: readonly string[] = Object.values(FIELDS);

/** The sum of two counts. */
export function addCounts(one: RuleCount, other: RuleCount): RuleCount {
  return {
    hits: one.hits + other.hits,
    refused: one.refused + other.refused,
    shadowed: one.shadowed + other.shadowed,
  };
}

const NONE: RuleCount = { hits: 0, refused: 0, shadowed: 0 };

/** The counters of a rule in all threads; the rule is found by its own LimitStats. */
export function ruleCount(book: LimitStatsBook, ruleStats: LimitStats): RuleCount {
  let count = NONE;
  for (const { stats } of book.entriesOf(ruleStats)) {
    count = addCounts(count, {
      hits: stats.sum("totalHits"),
      refused: stats.sum("overLimit"),
      shadowed: stats.sum("shadowMode"),
    });
  }
  return count;
}

/**
 * The counters of all workers, found by the labels of their series. Series of a rule's values are matched by the path of their rule,
 * because one worker does not know the values that others have seen. Series that METRIC_RULES_MAX sums as other rules count nowhere.
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
  /** The labels of the rule whose path ends here. */
  labels: string | undefined;
}

/** A tree of rules by domain, limit and the elements of their paths. All text is as in the labels, escapes included. */
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

  /** The rule whose value the labels name: the one with the longest match. */
  ruleOf(labels: string): string | undefined {
    const [domain = "", limit = "", ...path] = stepsOf(labels);
    const branch = this.#root.next.get(domain)?.next.get(limit);
    return branch === undefined ? undefined : findRule(branch, path, 0, new Map());
  }
}

function emptyBranch(): Branch {
  return { next: new Map(), labels: undefined };
}

/**
 * The rule below `branch` that the elements from `from` on belong to. A value may contain slashes, which also separate elements, so a
 * value may span several of them; the key before it has none. `failed` holds the positions that led nowhere for each branch: a
 * caller who chooses a value like `/_/_/_` must not choose how long this takes.
 */
function findRule(
  branch: Branch,
  path: readonly string[],
  from: number,
  failed: Map<Branch, Set<number>>,
): string | undefined {
  const element = path[from];
  if (element === undefined) return branch.labels;
  let positions = failed.get(branch);
  if (positions === undefined) {
    positions = new Set();
    failed.set(branch, positions);
  }
  if (positions.has(from)) return undefined;
  const whole = branch.next.get(element);
  const exact = whole === undefined ? undefined : findRule(whole, path, from + 1, failed);
  if (exact !== undefined) return exact;
  const keys = [...beginnings(element)].flatMap((text) => branch.next.get(text) ?? []);
  for (let to = from + 1; keys.length > 0 && to <= path.length; to++) {
    for (const next of keys) {
      const found = findRule(next, path, to, failed);
      if (found !== undefined) return found;
    }
  }
  positions.add(from);
  return undefined;
}

/** What stands before each `_`, the longest first: the keys that a value could belong to. */
function* beginnings(text: string): Generator<string> {
  for (let at = text.lastIndexOf("_"); at > 0; at = text.lastIndexOf("_", at - 1)) yield text.slice(0, at);
}

const TEXT = String.raw`[^"\\]*(?:\\.[^"\\]*)*`;
const LABELS = new RegExp(`^domain="(${TEXT})",key1="${TEXT}",key2="${TEXT}",rule="(${TEXT})",limit="(${TEXT})"$`, "s");

function stepsOf(labels: string): readonly string[] {
  const [, domain = "", rule = "", limit = ""] = LABELS.exec(labels) ?? [];
  return [domain, limit, ...rule.split("/")];
}
