// The reference service loses a rule's metadata whenever hits are counted under another name than the rule's own. Needed only under
// COMPATIBILITY_MODE, to make the same dynamic metadata.

import type { Descriptor } from "../domain/request.ts";
import { findRule } from "../rules/match.ts";
import type { Rule } from "../rules/rule-set.ts";
import type { LimitCall } from "./call.ts";

/** True if the reference service would lose the metadata of the rule of descriptor `index`. */
export function losesMetadata(call: LimitCall, index: number): boolean {
  const { domain, request } = call;
  const descriptor = request.descriptors[index] as Descriptor;
  const matched: Rule[] = [];
  if (domain === undefined || descriptor.hasOverride) return false;
  const rule = findRule(domain, descriptor, matched);
  if (rule === undefined) return false;
  if (rule.detailedMetric && rule.children === undefined) return true;
  let depth = 0;
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (domain.costEntries.has(descriptor.keys[i] as string)) continue;
    if (isCountedByOtherName(matched[depth++] as Rule, descriptor.values[i] as string)) return true;
  }
  return false;
}

function isCountedByOtherName(rule: Rule, value: string): boolean {
  if (rule.patternText === "" && rule.key.includes("*")) return true;
  if (rule.sharesThreshold || !rule.valueToMetric) return false;
  return rule.pattern.kind !== "exact" && value !== "" && value !== rule.patternText;
}
