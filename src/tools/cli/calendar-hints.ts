// Hints of `headgate check` about units longer than a day, which mean what they mean in envoyproxy/ratelimit and rarely
// what a contract means. Hints are not problems.

import { Algorithm, type Limit, UNIT_NAMES, Unit } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import { count } from "./terminal.ts";

const MEANINGS: ReadonlyMap<Unit, string> = new Map([
  [Unit.week, "begins on Thursday at midnight UTC"],
  [Unit.month, "has 30 days, counted from 1970 on"],
  [Unit.year, "has 365 days, counted from 1970 on"],
]);

/** A sentence for each such unit in the rule set. */
export function calendarHints(ruleSet: RuleSet): readonly string[] {
  const found = [...ruleSet.domains.values()].flatMap(({ limits }) => limits).filter(isMeant);
  return [...MEANINGS].flatMap(([unit, meaning]) => {
    const limits = found.filter(({ shownUnit }) => shownUnit === unit);
    const [first] = limits;
    if (first === undefined) return [];
    const name = UNIT_NAMES[unit];
    const where = `${count(limits.length, "limit")}, the first ${textOf(first.names.id)}`;
    return `a ${name} here ${meaning} (${where}); for a calendar ${name} write window: { calendar: ${name}, time_zone: Europe/Berlin }`;
  });
}

// COMPATIBILITY_MODE counts like envoyproxy/ratelimit on purpose; a token bucket has no window.
function isMeant({ shownUnit, algorithm, calendar, isCounter }: Limit): boolean {
  return MEANINGS.has(shownUnit) && calendar === undefined && !isCounter && algorithm !== Algorithm.tokenBucket;
}
