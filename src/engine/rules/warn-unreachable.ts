// Warns of rules that no value can reach, because an earlier pattern of the same key matches all their values.

import type { LongWork } from "../base/long-work.ts";
import { textOf } from "../domain/request.ts";
import { fitsPieces } from "./match.ts";
import { formatPlace, type ProblemLog } from "./problems.ts";
import type { Pattern, Rule } from "./rule-set.ts";

// Every pattern is compared with all earlier ones; the bound keeps that affordable.
const PATTERNS_CHECKED_MAX = 500;

/** Warns of each rule of a level that an earlier one hides. Does not warn if that is uncertain. */
export function* warnUnreachable(rules: readonly Rule[], log: ProblemLog): LongWork<void> {
  const patternsByKey = new Map<string, Rule[]>();
  for (const rule of rules) {
    yield;
    const { kind } = rule.pattern;
    if (kind === "exact" || kind === "any" || kind === "compositeWildcard") continue;
    const earlier = patternsByKey.get(rule.key) ?? [];
    patternsByKey.set(rule.key, earlier);
    if (earlier.length >= PATTERNS_CHECKED_MAX) continue;
    const hiding = earlier.find((candidate) => covers(candidate.pattern, rule.pattern));
    if (hiding !== undefined) warn(rule, hiding, log);
    earlier.push(rule);
  }
  // Matching tries the rule without a value last, wherever it is in the file.
  for (const rule of rules) {
    yield;
    if (rule.pattern.kind !== "any") continue;
    const hiding = patternsByKey.get(rule.key)?.find((candidate) => covers(candidate.pattern, rule.pattern));
    if (hiding !== undefined) warn(rule, hiding, log);
  }
}

function warn(rule: Rule, hiding: Rule, log: ProblemLog): void {
  const message = `nothing reaches this rule: '${textOf(hiding.pathElement)}' at ${formatPlace(hiding.at)} takes every value it would match`;
  // Moving the rule without a value would not help.
  const isLast = rule.pattern.kind === "any";
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
  if (pattern.kind === "wildcard") return pattern.pieces;
  if (pattern.kind === "prefix" && !pattern.prefix.includes("*")) return [pattern.prefix, ""];
  if (pattern.kind === "suffix" && !pattern.suffix.includes("*")) return ["", pattern.suffix];
  return undefined;
}
