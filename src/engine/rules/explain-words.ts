// The sentences of explain: why a rule accepts an entry or not, and what a limit allows. One-byte text is decoded.

import { ALGORITHM_NAMES, Algorithm, type Limit, UNIT_NAMES, UNIT_SECONDS, Unit } from "../domain/limit.ts";
import { textOf } from "../domain/request.ts";
import type { Rule } from "./rule-set.ts";

/** Longer values are cut in sentences; other fields of the report have them whole. */
const QUOTED_LENGTH_MAX = 80;
/** Longer lists of names are cut. */
const LISTED_MAX = 8;

/** One-byte text in quotes, cut if long. */
export function quoted(oneByte: string): string {
  const text = textOf(oneByte);
  return `'${text.length > QUOTED_LENGTH_MAX ? `${text.slice(0, QUOTED_LENGTH_MAX)}...` : text}'`;
}

/** The first LISTED_MAX of one-byte names, in quotes. */
export function listed(names: Iterable<string>): string {
  const all = [...names];
  const shown = all.slice(0, LISTED_MAX).map(quoted).join(", ");
  return all.length > LISTED_MAX ? `${shown} and ${all.length - LISTED_MAX} more` : shown;
}

/** Why the rule accepts the entry, as the end of a sentence. */
export function whyRuleMatches(rule: Rule, key: string, value: string): string {
  const text = quoted(rule.patternText);
  if (rule.key !== key && rule.pattern.kind !== "compositeWildcard") {
    return `its key and value joined fit the entry's, ${quoted(`${key}_${value}`)}`;
  }
  switch (rule.pattern.kind) {
    case "any":
      return `takes any value of ${quoted(rule.key)}`;
    case "exact":
      return `value is ${text}`;
    case "wildcard":
      return value === rule.patternText ? `value is the text ${text} itself` : `${quoted(value)} fits ${text}`;
    case "compositeWildcard":
      return `${quoted(`${key}_${value}`)} fits the pattern ${quoted(compositeText(rule))} over key and value`;
    case "prefix":
      return `${quoted(value)} begins with ${quoted(rule.pattern.prefix)}`;
    case "suffix":
      return `${quoted(value)} ends with ${quoted(rule.pattern.suffix)}`;
    case "regex":
      return `${quoted(value)} matches the regex ${quoted(rule.pattern.source)}`;
    case "cidr":
      return `${quoted(value)} is an address in ${rule.pattern.ranges.join(", ")}`;
  }
}

/** Why the rule does not accept the entry, as the end of a sentence. */
export function whyPassedOver(rule: Rule, key: string, value: string): string {
  const { pattern } = rule;
  if (pattern.kind === "compositeWildcard") {
    return `${quoted(`${key}_${value}`)} does not fit the pattern ${quoted(compositeText(rule))} over key and value`;
  }
  if (rule.key !== key) return `key ${quoted(key)} is not ${quoted(rule.key)}`;
  switch (pattern.kind) {
    case "any":
      return `takes any value of ${quoted(rule.key)}`;
    case "exact":
      return `value ${quoted(value)} is not ${quoted(pattern.value)}`;
    case "wildcard":
      return `${quoted(value)} does not fit ${quoted(rule.patternText)}`;
    case "prefix":
      return `${quoted(value)} does not begin with ${quoted(pattern.prefix)}`;
    case "suffix":
      return `${quoted(value)} does not end with ${quoted(pattern.suffix)}`;
    case "regex":
      return `${quoted(value)} does not match the regex ${quoted(pattern.source)}`;
    case "cidr":
      return `${quoted(value)} is no address in ${pattern.ranges.join(", ")}`;
  }
}

/** What the limit allows, in words: `10 tokens per second, burst 20`. `counted` names what a window counts. */
export function limitWords(limit: Limit, counted: "hit" | "call" = "hit"): string {
  if (limit.isConcurrent) return `${limit.burst} at once, each for ${countedWords(limit.holdSeconds)} at most`;
  const held = limit.holdSeconds > 0 ? `, held for ${countedWords(limit.holdSeconds)} at most` : "";
  return `${numberWords(limit, counted)}${held}${priorityWords(limit)}`;
}

function priorityWords({ priority, reserve }: Limit): string {
  if (reserve > 0) return `; ${reserve} more are kept for calls of high priority`;
  if (priority === undefined) return "";
  const values = [...priority.values].map(quoted).join(" or ");
  return `; of these ${priority.low.reserve} only where ${quoted(priority.entry)} is ${values}`;
}

function numberWords(limit: Limit, counted: "hit" | "call"): string {
  const amount = limit.shownAmount;
  const hits = `${amount} ${counted}${amount === 1 ? "" : "s"}`;
  if (limit.calendar !== undefined) return `${hits} per ${limit.calendar.words}`;
  // The unit as the rule writes it, because a token bucket's window is the shortest one of the same rate (reduceRate).
  const isOfUnit = limit.shownUnit !== Unit.unknown && !limit.isConcurrent;
  const per = `per ${windowWords(isOfUnit ? (UNIT_SECONDS[limit.shownUnit] ?? 1) : limit.windowSeconds)}`;
  if (limit.algorithm !== Algorithm.tokenBucket) {
    return `${hits} ${per}, ${algorithmWords(limit.algorithm)}`;
  }
  const tokens = isOfUnit ? amount : limit.amount;
  const rate = `${tokens} ${tokens === 1 ? "token" : "tokens"} ${per}`;
  return `${rate}, burst ${limit.burst}, token bucket`;
}

/** A length of time in the largest unit that divides it: `second`, `30 seconds`, `2 weeks`. */
function windowWords(seconds: number): string {
  let best = 1;
  UNIT_SECONDS.forEach((unitSeconds, unit) => {
    if (unit > 0 && seconds % unitSeconds === 0 && unitSeconds > (UNIT_SECONDS[best] ?? 0)) best = unit;
  });
  const count = seconds / (UNIT_SECONDS[best] ?? 1);
  return count === 1 ? `${UNIT_NAMES[best]}` : `${count} ${UNIT_NAMES[best]}s`;
}

/** As windowWords, but always with a number: `1 minute`. */
function countedWords(seconds: number): string {
  const words = windowWords(seconds);
  return /^\d/.test(words) ? words : `1 ${words}`;
}

function algorithmWords(algorithm: Algorithm): string {
  return ALGORITHM_NAMES[algorithm].replace("_", " ");
}

function compositeText(rule: Rule): string {
  return rule.pattern.kind === "compositeWildcard" ? rule.pattern.pieces.join("*") : rule.patternText;
}
