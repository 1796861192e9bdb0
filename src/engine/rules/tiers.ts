// Tiers: a rule whose limits depend on an entry of the descriptor. There is one rule per tier; they differ only in
// limits, which have names (`limits` of a file). A rule with `use` always has those of one name.

import type { Descriptor } from "../domain/request.ts";
import type { Level, Rule, Tiers } from "./rule-set.ts";

/**
 * The rule under the descriptor's tier. Of several such entries the first counts; an unknown value counts as no entry.
 */
export function ruleOfTier(rule: Rule, { entry, byName }: Tiers, descriptor: Descriptor): Rule {
  const name = descriptor.value(entry);
  return (name === undefined ? undefined : byName.get(name)) ?? rule;
}

/** The rules of all tiers; the rule alone if it has no tiers. */
export function rulesOfTiers(rule: Rule): readonly Rule[] {
  return rule.tiers === undefined ? [rule] : [...rule.tiers.byName.values()];
}

/** Every rule at a level and below it, in the order of the files. */
export function* allRules(level: Level): Generator<Rule> {
  for (const rule of level.rules) {
    yield rule;
    if (rule.children !== undefined) yield* allRules(rule.children);
  }
}
