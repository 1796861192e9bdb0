// What COMPATIBILITY_MODE shares with envoyproxy/ratelimit: how rules are found, and the keys of counters, so that both
// services count together. Text is one-byte (engine/domain/request.ts).
//
// Rules are compared with entries by the text `key_value`: {key: a, value: b_c} and {key: a_b, value: c} are the same
// rule there.
//
//   <prefix><domain>_<key>_<value>_<key>_<value>_<start of the window in seconds>
//
// is the key of a counter. Nothing is escaped, and it contains neither unit nor limit, so keys collide exactly as in
// the reference service. bucket-key.ts makes the keys of all other limits.

import type { Descriptor } from "../domain/request.ts";
import { shownValue } from "./bucket-key.ts";
import { accepts, findRule, fitsPieces, spend } from "./match.ts";
import type { CompositeIndex, CompositePattern, CounterRules, DomainRules, PatternWork, Rule } from "./rule-set.ts";

/** What COMPATIBILITY_MODE changes in a domain's rules. */
export function counterRules(cacheKeyPrefix: string, domain: string): CounterRules {
  const prefix = `${cacheKeyPrefix}${domain}_`;
  return {
    indexOf: buildIndex,
    keyOf: (rules, descriptor, matched, hashesValues) => counterKey(prefix, rules, descriptor, matched, hashesValues),
    losesMetadata,
  };
}

/**
 * The rule's text `key_value`, or its key if it has no value; undefined for a `match`, which the reference service
 * lacks.
 */
function compositeText(rule: Rule): string | undefined {
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
function buildIndex(rules: readonly Rule[]): CompositeIndex {
  const byText = new Map<string, Rule>();
  const patterns: CompositePattern[] = [];
  for (const rule of rules) {
    const text = compositeText(rule);
    if (text !== undefined && !byText.has(text)) byText.set(text, rule);
    if (text === undefined) patterns.push({ rule, pieces: undefined });
    else if (text.includes("*") && rule.pattern.kind !== "exact") patterns.push({ rule, pieces: text.split("*") });
  }
  const find = (key: string, value: string, work: PatternWork) => findIn({ byText, patterns }, key, value, work);
  return { byText, patterns, textOf: compositeText, find };
}

// The text `key_value`, then patterns in order, then the bare key.
function findIn(
  { byText, patterns }: Pick<CompositeIndex, "byText" | "patterns">,
  key: string,
  value: string,
  work: PatternWork,
): Rule | undefined {
  const text = `${key}_${value}`;
  const exact = byText.get(text);
  if (exact !== undefined) return exact;
  for (let i = 0; i < patterns.length; i++) {
    const { rule, pieces } = patterns[i] as CompositePattern;
    spend(work, rule, text);
    if (pieces === undefined ? accepts(rule, key, value) : fitsPieces(pieces, text)) return rule;
  }
  return byText.get(key);
}

/**
 * The key of a descriptor's counters without the start of the window. `matched` holds the rule of each entry; undefined
 * for an override, whose key has the entries as they are, with values hashed if `hashesValues`. Cost entries are
 * skipped.
 */
function counterKey(
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

// The text for all values of a shared pattern: the pattern without the entry's key, or the whole pattern if it does not
// begin with the key. If the entry matched the rule by its bare key and not by the pattern, the value stays.
function sharedValue(rule: Rule, key: string, value: string): string {
  const composite = compositeText(rule);
  if (composite === undefined) return rule.patternText;
  if (!fitsPieces(composite.split("*"), `${key}_${value}`)) return value;
  return composite.startsWith(`${key}_`) ? composite.slice(key.length + 1) : composite;
}

/**
 * True if the reference service would lose the metadata of the descriptor's rule: it does whenever hits are counted
 * under another name than the rule's own.
 */
function losesMetadata(domain: DomainRules, descriptor: Descriptor): boolean {
  const matched: Rule[] = [];
  if (descriptor.hasOverride) return false;
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
