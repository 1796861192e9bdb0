// Names of counters, under envoyproxy/ratelimit's own text, so that both services count together (COMPATIBILITY_MODE):
//
//   <prefix><domain>_<key>_<value>_<key>_<value>_<start of the window in seconds>
//
// Nothing is escaped, and neither unit nor limit is in the key: what meets there in the reference service meets here.
// Text is one-byte (core/request.ts). Names of Headgate's own buckets are made by bucket-key.ts.

import type { Descriptor } from "../core/request.ts";
import { shownValue } from "./bucket-key.ts";
import { compositeText } from "./composite.ts";
import { fitsPieces } from "./match.ts";
import type { DomainRules, Rule } from "./rule-set.ts";

/** Start of the names of all counters of a domain. */
export function counterKeyPrefix(cacheKeyPrefix: string, domain: string): string {
  return `${cacheKeyPrefix}${domain}_`;
}

/**
 * Name of a descriptor's counters but for the start of the window. `matched` are the rules its entries led to; undefined
 * for an override, which counts the entries as they are, but for values that its rules hide. Cost entries are passed over.
 */
export function counterKey(
  prefix: string,
  rules: DomainRules,
  descriptor: Descriptor,
  matched: readonly Rule[] | undefined,
  hashesValues = false,
): string {
  let text = prefix;
  let depth = 0;
  for (let i = 0; i < descriptor.entryCount; i++) {
    const key = descriptor.keys[i] as string;
    if (rules.costEntries.size > 0 && rules.costEntries.has(key)) continue;
    const value = shownValue(descriptor.values[i] as string, hashesValues);
    const rule = matched?.[depth++];
    text += `${key}_${rule?.sharesThreshold === true ? sharedValue(rule, key, value) : value}_`;
  }
  return text;
}

// What stands for all values of a shared pattern: the pattern without the entry's key, or whole where the key is no
// beginning of it. A rule that was reached by its bare text matched no pattern, so the value stays.
function sharedValue(rule: Rule, key: string, value: string): string {
  const composite = compositeText(rule);
  if (composite === undefined) return rule.patternText;
  if (!fitsPieces(composite.split("*"), `${key}_${value}`)) return value;
  return composite.startsWith(`${key}_`) ? composite.slice(key.length + 1) : composite;
}
