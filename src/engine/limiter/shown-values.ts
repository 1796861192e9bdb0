// Values of entries as people and metrics see them: hashes where they are hidden (`hash_values`), and the values that
// rules with `detailed_metric` and `value_to_metric` are counted under.

import type { Descriptor } from "../domain/request.ts";
import { shownValue } from "../rules/bucket-key.ts";
import { hidesValues } from "../rules/match.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import type { LimitCall } from "./call.ts";

/** The values of descriptor `index` as they may be shown, in the order of its entries. One-byte. */
export function shownValues(call: LimitCall, index: number): readonly string[] {
  const descriptor = call.request.descriptors[index] as Descriptor;
  const isHidden = hides(call, index);
  return descriptor.values.slice(0, descriptor.entryCount).map((value) => shownValue(value, isHidden));
}

/** A value that came with descriptor `index`, as it may be shown. One-byte. */
export function shownBeside(call: LimitCall, index: number, value: string): string {
  return shownValue(value, hides(call, index));
}

function hides({ domain, request }: LimitCall, index: number): boolean {
  return domain !== undefined && hidesValues(domain, request.descriptors[index] as Descriptor);
}

/** True if the rule or one on the path to it puts callers' values into metric labels. */
export function countsValues(rule: Rule, matched: readonly Rule[], descriptor: Descriptor): boolean {
  if (rule.detailedMetric) return true;
  // `matched` may still hold rules of an earlier, deeper descriptor after this one's; the rule itself is the last valid
  // element.
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (matched[i]?.valueToMetric) return true;
    if (matched[i] === rule || (rule.tiers !== undefined && matched[i]?.tiers === rule.tiers)) return false;
  }
  return false;
}

/** The stat path for counting by value, one element per level. A level with share_threshold shows its pattern. */
export function valuePath(rules: DomainRules, descriptor: Descriptor, matched: readonly Rule[]): string[] {
  const path: string[] = [];
  const last = lastRuleOf(rules, descriptor, matched);
  for (let i = 0; i < descriptor.entryCount; i++) {
    const key = descriptor.keys[i] as string;
    if (rules.costEntries.has(key)) continue;
    const rule = matched[path.length] as Rule;
    const value = shownValue(descriptor.values[i] as string, last?.hashesValues === true);
    if (rule.sharesThreshold) path.push(`${key}_${rule.patternText}`);
    else if (last?.detailedMetric) path.push(`${key}_${value}`);
    else if (rule.valueToMetric) path.push(value === "" ? key : `${key}_${value}`);
    else path.push(rule.patternText === "" ? rule.key : `${rule.key}_${rule.patternText}`);
  }
  return path;
}

function lastRuleOf(rules: DomainRules, descriptor: Descriptor, matched: readonly Rule[]): Rule | undefined {
  let depth = 0;
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (!rules.costEntries.has(descriptor.keys[i] as string)) depth++;
  }
  return matched[depth - 1];
}
