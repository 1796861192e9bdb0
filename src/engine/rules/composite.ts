// The index for COMPATIBILITY_MODE, where match.ts compares the text `key_value` of entries and rules, as envoyproxy/ratelimit does:
// {key: a, value: b_c} and {key: a_b, value: c} are the same rule there.

import type { CompositeIndex, CompositePattern, Rule } from "./rule-set.ts";

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
