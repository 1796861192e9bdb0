// Hints of `headgate check` about units that are longer than a day: they mean what envoyproxy/ratelimit means by them, which is
// rarely what a contract means. The rules are correct, so a hint counts as no problem.

import { Algorithm, type Limit, UNIT_NAMES, Unit } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import { formatPlace } from "../../engine/rules/problems.ts";
import type { DomainRules, RuleSet } from "../../engine/rules/rule-set.ts";
import { allRules, rulesOfTiers } from "../../engine/rules/tiers.ts";
import { count } from "./terminal.ts";

const MEANINGS: ReadonlyMap<Unit, string> = new Map([
  [Unit.week, "begins on Thursday at midnight UTC"],
  [Unit.month, "has 30 days, counted from 1970 on"],
  [Unit.year, "has 365 days, counted from 1970 on"],
]);

interface Found {
  limits: number;
  /** Where the first is, in words. */
  readonly first: string;
}

/** A sentence for each such unit in the rule set. */
export function calendarHints(ruleSet: RuleSet): readonly string[] {
  const found = new Map<Unit, Found>();
  for (const domain of ruleSet.domains.values()) gather(domain, found);
  return [...found].map(([unit, { limits, first }]) => {
    const name = UNIT_NAMES[unit];
    const where = `${count(limits, "limit")}, the first ${first}`;
    return `a ${name} here ${MEANINGS.get(unit)} (${where}); for a calendar ${name} write window: { calendar: ${name}, time_zone: Europe/Berlin }`;
  });
}

function gather({ domain, globalLimit, root }: DomainRules, found: Map<Unit, Found>): void {
  if (globalLimit !== undefined) note(globalLimit.limit, `the global limit of '${textOf(domain)}'`, found);
  for (const rule of allRules(root)) {
    const limits = rulesOfTiers(rule).flatMap((one) => one.limits);
    for (const limit of limits) note(limit, `at ${formatPlace(rule.at)}`, found);
  }
}

function note(limit: Limit, where: string, found: Map<Unit, Found>): void {
  if (!isMeant(limit)) return;
  const known = found.get(limit.shownUnit);
  if (known === undefined) found.set(limit.shownUnit, { limits: 1, first: where });
  else known.limits++;
}

// In COMPATIBILITY_MODE both services are to count alike; a token bucket has no window.
function isMeant({ shownUnit, algorithm, calendar, isCounter }: Limit): boolean {
  return MEANINGS.has(shownUnit) && calendar === undefined && !isCounter && algorithm !== Algorithm.tokenBucket;
}
