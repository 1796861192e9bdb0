// Warns of rules that no value can reach, because an earlier pattern of the same key matches all their values, and of rules that callers
// can bypass: by values that match no rule, or from private networks that are exempt.

import { getOrInsert } from "../base/get-or-insert.ts";
import { textOf } from "../domain/request.ts";
import { fitsPieces } from "./match.ts";
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

interface RulesOfKey {
  /** The first rule with rules below it. */
  tier: Rule | undefined;
  takesAll: boolean;
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
    const ofKey = getOrInsert(this.#byKey, rule.key, () => ({ tier: undefined, takesAll: false }));
    if (rule.children !== undefined) ofKey.tier ??= rule;
    ofKey.takesAll ||= takesAll(rule);
  }

  warn(log: ProblemLog): void {
    for (const { at } of this.#exempt) {
      const message = "private addresses are exempt here; behind a load balancer or a proxy, every caller may have one";
      log.warn(at, message, "Exempt only addresses that the proxy can't have.");
    }
    // A key with a star matches other keys too, so nothing can be concluded.
    if (this.#hasStarKey) return;
    for (const { tier, takesAll } of this.#byKey.values())
      if (tier !== undefined && !takesAll) warnWithoutRest(tier, log);
  }
}

// A value with rules below it is probably a class of callers, who must not escape it by sending another value. A value with a limit and
// no rules below it is more often a single thing, such as a path.
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
