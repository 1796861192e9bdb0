// What COMPATIBILITY_MODE shares with envoyproxy/ratelimit: how rules are found, and the keys of counters, so that both services count
// together. Text is one-byte (engine/domain/request.ts).
//
// Rules are compared with entries by the text `key_value`: {key: a, value: b_c} and {key: a_b, value: c} are the same rule there.
//
//   <prefix><domain>_<key>_<value>_<key>_<value>_<start of the window in seconds>
//
// is the key of a counter. Nothing is escaped, and it contains neither unit nor limit, so keys collide exactly as in the reference
// service. bucket-key.ts makes the keys of all other limits.

import type { Descriptor } from "../domain/request.ts";
import { shownValue } from "./bucket-key.ts";
import { fitsPieces } from "./match.ts";
import type { CompositeIndex, CompositePattern, DomainRules, Rule } from "./rule-set.ts";

/** The rule's text `key_value`, or its key if it has no value; undefined for a `match`, which the reference service lacks. */
export function compositeText(rule: Rule): string | undefined {
  switch (rule.pattern.kind) {
    case "any":
      return rule.key;
    case "exact":
    case "wildcard":
    case "compositeWildcard":
      return rule.patternText === "" ? rule.key : `${rule.key}_${rule.patternText}`;
    default:
      return undefined;
  }
}

/** The rules of one level by their text. Of two with the same text, the first in the file counts. */
export function buildCompositeIndex(rules: readonly Rule[]): CompositeIndex {
  const byText = new Map<string, Rule>();
  const patterns: CompositePattern[] = [];
  for (const rule of rules) {
    const text = compositeText(rule);
    if (text !== undefined && !byText.has(text)) byText.set(text, rule);
    if (text === undefined) patterns.push({ rule, pieces: undefined });
    else if (text.includes("*") && rule.pattern.kind !== "exact") patterns.push({ rule, pieces: text.split("*") });
  }
  return { byText, patterns };
}

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
