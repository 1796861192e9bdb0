// A rule whose limits hang on an entry of the descriptor: of each tier it has a rule of its own, which differs in limits alone.

import type { Descriptor } from "../core/request.ts";
import type { Rule, Tiers } from "./rule-set.ts";

/** The rule as it is for the descriptor: of several such entries the first one counts, and a value that names none is as no entry. */
export function ruleOfTier(rule: Rule, { entry, byName }: Tiers, descriptor: Descriptor): Rule {
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (descriptor.keys[i] === entry) return byName.get(descriptor.values[i] as string) ?? rule;
  }
  return rule;
}

/** The rule under all its tiers; the rule alone if it has none. */
export function rulesOfTiers(rule: Rule): readonly Rule[] {
  return rule.tiers === undefined ? [rule] : [...rule.tiers.byName.values()];
}
