// Warns of rules that no value can reach, because an earlier pattern of the same key matches all their values, and of
// rules that callers can bypass: by values that match no rule, or from private networks that are exempt.

import { getOrInsert } from "../../base/get-or-insert.ts";
import { textOf } from "../domain/request.ts";
import { dodgeOf, isSetByOperators } from "./known-keys.ts";
import { accepts, fitsPieces } from "./match.ts";
import { formatPlace, type ProblemLog } from "./problems.ts";
import type { Pattern, Rule } from "./rule-set.ts";

// A pattern is compared with the earlier ones of its key; the bound keeps that affordable.
const PATTERNS_CHECKED_MAX = 500;

/** Warns if one of the patterns hides the rule. Does not warn if that is uncertain. */
export function warnHidden(rule: Rule, patterns: readonly Rule[], log: ProblemLog): void {
  const isLast = rule.pattern.kind === "any";
  if (!isLast && patterns.length >= PATTERNS_CHECKED_MAX) return;
  const hiding = patterns.slice(0, PATTERNS_CHECKED_MAX).find(({ pattern }) => covers(pattern, rule.pattern));
  if (hiding === undefined) return;
  const message = `this rule is never reached: '${textOf(hiding.pathElement)}' at ${formatPlace(hiding.at)} matches all its values first`;
  // Moving the rule without a value would not help.
  log.warn(rule.at, message, isLast ? "Remove one of the two." : "Move it before that rule, or remove it.");
}

/** True if `first` certainly matches every value that `second` matches. */
function covers(first: Pattern, second: Pattern): boolean {
  const glob = globOf(first);
  if (glob === undefined) return false;
  if (glob.every((piece) => piece === "") && glob.length > 1) return true;
  const text = globOf(second)?.join("*");
  // A star in the text can only match a star of the glob, because no literal piece contains one.
  return text !== undefined && fitsPieces(glob, text);
}

function globOf(pattern: Pattern): readonly string[] | undefined {
  if (!("pieces" in pattern) || pattern.pieces.some((piece) => piece.includes("*"))) return undefined;
  return pattern.pieces;
}

/** Most rules with exact values of a key whose dodges are looked for. */
const EXACT_CHECKED_MAX = 50;

interface RulesOfKey {
  /** The first rule with rules below it. */
  tier: Rule | undefined;
  takesAll: boolean;
  /** Rules for one value each, with a limit. */
  readonly exact: Rule[];
  readonly others: Rule[];
}

/** Finds such gaps in the rules of one level. */
export class BypassCheck {
  readonly #exempt: Rule[] = [];
  readonly #byKey = new Map<string, RulesOfKey>();
  #hasStarKey = false;

  /** Adds the next rule of the level. */
  add(rule: Rule, coversPrivateNetwork: boolean): void {
    if (rule.isUnlimited && coversPrivateNetwork) this.#exempt.push(rule);
    if (rule.pattern.kind === "compositeWildcard") this.#hasStarKey = true;
    const ofKey = getOrInsert(this.#byKey, rule.key, () => ({
      tier: undefined,
      takesAll: false,
      exact: [],
      others: [],
    }));
    ofKey.takesAll ||= takesAll(rule);
    if (isSetByOperators(rule.key, rule.patternText)) return;
    if (rule.children !== undefined) ofKey.tier ??= rule;
    const isLimited = rule.limits.length > 0 || rule.children !== undefined;
    if (rule.pattern.kind !== "exact") ofKey.others.push(rule);
    else if (isLimited) ofKey.exact.push(rule);
  }

  warn(log: ProblemLog): void {
    for (const { at } of this.#exempt) {
      const message = "private addresses are exempt here; behind a load balancer or a proxy, every caller may have one";
      log.warn(at, message, "Exempt only addresses that the proxy can't have.");
    }
    // A key with a star matches other keys too, so nothing can be concluded.
    if (this.#hasStarKey) return;
    for (const ofKey of this.#byKey.values()) {
      if (ofKey.takesAll) continue;
      const dodged = ofKey.exact.slice(0, EXACT_CHECKED_MAX).find((rule) => isDodged(rule, ofKey.others));
      if (dodged !== undefined) warnDodged(dodged, log);
      else if (ofKey.tier !== undefined) warnWithoutRest(ofKey.tier, log);
    }
  }
}

/** Whether callers may choose another value that means the same and meets none of the patterns. */
function isDodged({ key, patternText }: Rule, others: readonly Rule[]): boolean {
  const dodge = dodgeOf(key, patternText);
  return dodge !== undefined && !others.slice(0, PATTERNS_CHECKED_MAX).some((rule) => accepts(rule, key, dodge));
}

function warnDodged({ key, patternText, at }: Rule, log: ProblemLog): void {
  const [name, value] = [textOf(key), textOf(patternText)];
  log.warn(
    at,
    `callers choose the value of '${name}': '${textOf(dodgeOf(key, patternText) ?? "")}' is not '${value}', matches no rule and is not limited`,
    `Add a rule for '${name}' without a value, or match: { prefix: ${JSON.stringify(value)} } here.`,
  );
}

// A value with rules below it is probably a class of callers, who must not escape it by sending another value. A value
// with a limit and no rules below it is more often a single thing.
function warnWithoutRest(tier: Rule, log: ProblemLog): void {
  const key = textOf(tier.key);
  log.warn(
    tier.at,
    `a descriptor with any other '${key}' matches no rule and is not limited`,
    `Add a rule for '${key}' without a value, with limits or, if intended, 'rate_limit: { unlimited: true }'.`,
  );
}

function takesAll({ pattern }: Rule): boolean {
  return pattern.kind === "any" || (pattern.kind === "wildcard" && pattern.pieces.every((piece) => piece === ""));
}
