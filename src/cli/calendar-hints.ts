// Hints of `headgate check` about units that are longer than a day: they mean what envoyproxy/ratelimit means by them, which is
// rarely what a contract means. The rules are correct, so a hint counts as no problem.

import { Algorithm, type Limit, UNIT_NAMES, Unit } from "../core/limit.ts";
import type { Place } from "../rules/place.ts";
import { formatPlace } from "../rules/problems.ts";
import type { Level, RuleSet } from "../rules/rule-set.ts";
import { count } from "./terminal.ts";

const MEANINGS: ReadonlyMap<Unit, string> = new Map([
  [Unit.week, "begins on Thursday at midnight UTC"],
  [Unit.month, "has 30 days, counted from 1970 on"],
  [Unit.year, "has 365 days, counted from 1970 on"],
]);

interface Found {
  limits: number;
  readonly first: Place;
}

/** A sentence for each such unit in the rule set. */
export function calendarHints(ruleSet: RuleSet): readonly string[] {
  const found = new Map<Unit, Found>();
  for (const { root } of ruleSet.domains.values()) gather(root, found);
  return [...found].map(([unit, { limits, first }]) => {
    const name = UNIT_NAMES[unit];
    const where = `${count(limits, "limit")}, the first at ${formatPlace(first)}`;
    return `a ${name} here ${MEANINGS.get(unit)} (${where}); window: { calendar: ${name}, time_zone: Europe/Berlin } is a calendar's`;
  });
}

function gather({ rules }: Level, found: Map<Unit, Found>): void {
  for (const { limits, at, children } of rules) {
    for (const limit of limits) {
      if (!isMeant(limit)) continue;
      const known = found.get(limit.shownUnit);
      if (known === undefined) found.set(limit.shownUnit, { limits: 1, first: at });
      else known.limits++;
    }
    if (children !== undefined) gather(children, found);
  }
}

// In COMPATIBILITY_MODE both services are to count alike; a token bucket has no window.
function isMeant({ shownUnit, algorithm, calendar, isCounter }: Limit): boolean {
  return MEANINGS.has(shownUnit) && calendar === undefined && !isCounter && algorithm !== Algorithm.tokenBucket;
}
