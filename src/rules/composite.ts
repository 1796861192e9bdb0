// Matching as envoyproxy/ratelimit does it, on the text `key_value` of an entry and of a rule (COMPATIBILITY_MODE):
// {key: a, value: b_c} and {key: a_b, value: c} are one rule there. Builds what match.ts then looks entries up in.

import type { CompositeIndex, CompositePattern, Rule } from "./rule-set.ts";

/** The rule as one text, `key_value` or the bare key; undefined for a match that the reference service does not know. */
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

/** The rules of one level by their text. Where two come to the same text, the first of the file counts. */
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
