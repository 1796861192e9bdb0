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

/** A sentence for each such unit in the rule set. */
export function calendarHints(ruleSet: RuleSet): readonly string[] {
  const found = [...ruleSet.domains.values()].flatMap(limitsOf).filter(({ limit }) => isMeant(limit));
  return [...MEANINGS].flatMap(([unit, meaning]) => {
    const [first, ...more] = found.filter(({ limit }) => limit.shownUnit === unit);
    if (first === undefined) return [];
    const name = UNIT_NAMES[unit];
    const where = `${count(more.length + 1, "limit")}, the first ${first.where}`;
    return `a ${name} here ${meaning} (${where}); for a calendar ${name} write window: { calendar: ${name}, time_zone: Europe/Berlin }`;
  });
}

/** All limits of a domain, and where they are in words. */
function limitsOf({ domain, globalLimit, root }: DomainRules): { readonly limit: Limit; readonly where: string }[] {
  const ofAll = globalLimit && { limit: globalLimit.limit, where: `the global limit of '${textOf(domain)}'` };
  const ofRules = [...allRules(root)].flatMap((rule) =>
    rulesOfTiers(rule).flatMap(({ limits }) => limits.map((limit) => ({ limit, where: `at ${formatPlace(rule.at)}` }))),
  );
  return ofAll === undefined ? ofRules : [ofAll, ...ofRules];
}

// In COMPATIBILITY_MODE both services are to count alike; a token bucket has no window.
function isMeant({ shownUnit, algorithm, calendar, isCounter }: Limit): boolean {
  return MEANINGS.has(shownUnit) && calendar === undefined && !isCounter && algorithm !== Algorithm.tokenBucket;
}
