// The counters of rules, with the values of callers added to their rule.

import type { LimitStats, RuleCount } from "../../engine/domain/stats.ts";
import type { LimitStatsBook } from "./stats-book.ts";

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
