// Finds the rule that applies to a descriptor. Each entry chooses a rule of the next level: exact values first, then
// patterns, then the bare key, without backtracking. Hot path without allocation. explain.ts describes the same walk in
// words.
//
// Many rules and long values could make one call block all others, so the work is counted (MatchWork), and the clock is
// read now and then.

import type { Clock } from "../../base/clock.ts";
import { RequestError } from "../../base/errors.ts";
import type { Descriptor } from "../domain/request.ts";
import type { DomainRules, Level, PatternWork, Rule } from "./rule-set.ts";
import { ruleOfTier } from "./tiers.ts";

/**
 * Finds the rule whose limits apply to the descriptor: the rule of the last entry, under the descriptor's tier, if it
 * has a limit; else undefined. Cost entries are skipped; `matched` receives the rules of the other entries. Throws
 * RequestError if `work` is exceeded.
 */
export function findRule(
  rules: DomainRules,
  descriptor: Descriptor,
  matched: Rule[],
  work: MatchWork = ANY_MATCH_WORK,
): Rule | undefined {
  let level: Level | undefined = rules.root;
  let rule: Rule | undefined;
  let depth = 0;
  for (let i = 0; i < descriptor.entryCount; i++) {
    const key = descriptor.keys[i] as string;
    if (rules.costEntries.size > 0 && rules.costEntries.has(key)) continue;
    if (level === undefined) return undefined;
    rule = findChild(level, key, descriptor.values[i] as string, work);
    if (rule === undefined) return undefined;
    matched[depth++] = rule;
    level = rule.children;
  }
  if (rule === undefined || !rule.hasLimit) return undefined;
  return rule.tiers === undefined ? rule : ruleOfTier(rule, rule.tiers, descriptor);
}

/**
 * True if a rule that the entries match hides values (`hash_values`). An entry that no rule accepts, such as a misspelt
 * key, is hidden wherever a rule of its key hides.
 */
export function hidesValues(rules: DomainRules, descriptor: Descriptor, work: MatchWork = ANY_MATCH_WORK): boolean {
  if (!rules.hasHashedValues) return false;
  let level: Level | undefined = rules.root;
  for (let i = 0; i < descriptor.entryCount; i++) {
    const key = descriptor.keys[i] as string;
    if (rules.costEntries.has(key)) continue;
    const rule: Rule | undefined = level && findChild(level, key, descriptor.values[i] as string, work);
    if (rule?.hashesValues ?? (rules.hiddenKeys.has(key) || rules.hiddenKeys.has(ANY_KEY))) return true;
    level = rule?.children;
  }
  return false;
}

/** In DomainRules.hiddenKeys: a rule that hides has a star in its key. */
export const ANY_KEY = "*";

/**
 * Finds the rule of one level that accepts the entry. Other rules are not tried, even if this one's subtree does not
 * match.
 */
export function findChild(
  level: Level,
  key: string,
  value: string,
  work: MatchWork = ANY_MATCH_WORK,
): Rule | undefined {
  if (level.composite !== undefined) return level.composite.find(key, value, work);
  const rules = level.byKey.get(key);
  const exact = rules?.exact.get(value);
  if (exact !== undefined) return exact;
  const patterns = level.starKeyPatterns.length > 0 ? level.starKeyPatterns : rules?.patterns;
  if (patterns !== undefined) {
    for (let i = 0; i < patterns.length; i++) {
      const rule = patterns[i] as Rule;
      spend(work, rule, value);
      if (accepts(rule, key, value)) return rule;
    }
  }
  return rules?.any;
}

/** Whether the rule itself accepts the entry, regardless of other rules. */
export function accepts(rule: Rule, key: string, value: string): boolean {
  const pattern = rule.pattern;
  if (pattern.kind === "compositeWildcard") return fitsPieces(pattern.pieces, `${key}_${value}`);
  if (rule.key !== key) return false;
  switch (pattern.kind) {
    case "any":
      return true;
    case "exact":
      return pattern.value === value;
    case "wildcard":
    case "prefix":
    case "suffix":
      return fitsPieces(pattern.pieces, value);
    case "regex":
    case "cidr":
      return pattern.test(value);
  }
}

/** Counts the work of trying the rule on a text. */
export function spend(work: PatternWork, rule: Rule, text: string): void {
  if (rule.pattern.kind === "regex") work.spendLong();
  else work.spendPattern(text.length);
}

/** Whether the text matches a pattern with stars, which `pieces` are split at: any text may be between two pieces. */
export function fitsPieces(pieces: readonly string[], text: string): boolean {
  const first = pieces[0] ?? "";
  const last = pieces[pieces.length - 1] ?? "";
  if (pieces.length === 1) return text === first;
  if (text.length < first.length + last.length || !text.startsWith(first) || !text.endsWith(last)) return false;
  const end = text.length - last.length;
  let at = first.length;
  for (let i = 1; i < pieces.length - 1; i++) {
    const piece = pieces[i] as string;
    const found = text.indexOf(piece, at);
    if (found < 0 || found + piece.length > end) return false;
    at = found + piece.length;
  }
  return true;
}

/** Longest matching of one call, in microseconds. */
export const MATCH_US_MAX = 20_000;

/**
 * Most time that counts between two readings of the clock: one regular expression takes 12 ms at most (schema.ts). In a
 * longer time the process itself was stopped.
 */
const LOOK_US_MAX = 12_000;

/**
 * Units of work between two readings of the clock. A unit takes a few nanoseconds, so the clock is read every few
 * microseconds.
 */
const UNITS_PER_LOOK = 1_000;

/** The work of one call at a time. */
export class MatchWork implements PatternWork {
  readonly #clock: Clock | undefined;
  #spentUs = 0;
  /** The last reading of the clock; 0 before the first one of a call. */
  #lookedUs = 0;
  #left = UNITS_PER_LOOK;

  /** Without a clock there is no bound. */
  constructor(clock?: Clock) {
    this.#clock = clock;
  }

  /** Begins the next call. */
  begin(): void {
    this.#spentUs = 0;
    this.#lookedUs = 0;
    this.#left = UNITS_PER_LOOK;
  }

  /** Counts the work of trying a pattern. Throws RequestError REQUEST_MATCHING if the call took too long. */
  spendPattern(textLength: number): void {
    this.#left -= 8 + (textLength >> 4);
    if (this.#left < 0) this.spendLong();
  }

  /** Reads the clock before work that may take long. Throws as `spendPattern` does. */
  spendLong(): void {
    this.#left = UNITS_PER_LOOK;
    if (this.#clock === undefined) return;
    const nowUs = this.#clock.nowUs();
    if (this.#lookedUs > 0) this.#spentUs += Math.min(nowUs - this.#lookedUs, LOOK_US_MAX);
    this.#lookedUs = nowUs;
    if (this.#spentUs < MATCH_US_MAX) return;
    throw new RequestError(
      "REQUEST_MATCHING",
      `matching the descriptors took longer than ${MATCH_US_MAX / 1_000} ms; expected fewer descriptors, shorter values or simpler patterns`,
    );
  }
}

/** Unbounded work, for matching outside of calls. */
const ANY_MATCH_WORK = new MatchWork();
