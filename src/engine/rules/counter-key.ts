// Makes the keys of counters as envoyproxy/ratelimit does, so that both services count together (COMPATIBILITY_MODE):
//
//   <prefix><domain>_<key>_<value>_<key>_<value>_<start of the window in seconds>
//
// Nothing is escaped, and the key contains neither unit nor limit, so keys collide exactly as in the reference service. Text is
// one-byte (engine/domain/request.ts). bucket-key.ts makes the keys of all other limits.

import type { Descriptor } from "../domain/request.ts";
import { shownValue } from "./bucket-key.ts";
import { compositeText } from "./composite.ts";
import { fitsPieces } from "./match.ts";
import type { DomainRules, Rule } from "./rule-set.ts";

/** Start of the keys of all counters of a domain. */
export function counterKeyPrefix(cacheKeyPrefix: string, domain: string): string {
  return `${cacheKeyPrefix}${domain}_`;
}

/**
 * The key of a descriptor's counters without the start of the window. `matched` holds the rule of each entry; undefined for an
 * override, whose key has the entries as they are, with values hashed if `hashesValues`. Cost entries are skipped.
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

// The text for all values of a shared pattern: the pattern without the entry's key, or the whole pattern if it does not begin with the
// key. If the entry matched the rule by its bare key and not by the pattern, the value stays.
function sharedValue(rule: Rule, key: string, value: string): string {
  const composite = compositeText(rule);
  if (composite === undefined) return rule.patternText;
  if (!fitsPieces(composite.split("*"), `${key}_${value}`)) return value;
  return composite.startsWith(`${key}_`) ? composite.slice(key.length + 1) : composite;
}
