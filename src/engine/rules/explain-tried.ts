// Lists which rules of a level were tried on an entry, in what order, and why each matched or not. explain.ts walks the levels; match.ts
// decides.

import type { LongWork } from "../base/long-work.ts";
import { textOf } from "../domain/request.ts";
import type { TriedRule } from "./explain-report.ts";
import { quoted, whyPassedOver, whyRuleMatches } from "./explain-words.ts";
import { accepts, fitsPieces } from "./match.ts";
import { formatPlace } from "./problems.ts";
import type { CompositeIndex, KeyRules, Level, Rule } from "./rule-set.ts";

/** Most rules listed per entry. */
export const TRIED_MAX = 30;
/** Most rules with exact values that are listed before the other rules. */
const EXACT_MAX = 10;

/** The rules of a level that are listed, and how many are not. */
interface Tried {
  readonly tried: readonly TriedRule[];
  readonly left_out: number;
}

/** The entry, and the rule that it matched. */
interface Looked {
  readonly key: string;
  readonly value: string;
  readonly matched: Rule | undefined;
}

/** The outcome of one rule. `isDecided`: an earlier rule has matched. */
type Judge = (rule: Rule, isDecided: boolean) => Pick<TriedRule, "outcome" | "why">;

/** The rules of a level in the order in which they are tried: exact values, patterns, the bare key. At most TRIED_MAX. */
export function triedRules(level: Level, key: string, value: string, matched: Rule | undefined): LongWork<Tried> {
  const looked = { key, value, matched };
  if (level.composite !== undefined) return triedComposites(level, level.composite, looked);
  return triedSingly(level, looked);
}

function* triedSingly(level: Level, looked: Looked): LongWork<Tried> {
  const { key, value, matched } = looked;
  const keyRules = level.byKey.get(key);
  const patterns = level.starKeyPatterns.length > 0 ? level.starKeyPatterns : (keyRules?.patterns ?? []);
  const isExact = matched !== undefined && keyRules?.exact.get(value) === matched;
  const any = keyRules?.any === undefined ? [] : [keyRules.any];
  const exact = exactShown(keyRules, patterns, matched, isExact);
  // Wildcards are among the exact values too, under their own text.
  const wildcards = keyRules?.patterns.filter((rule) => rule.pattern.kind === "wildcard").length ?? 0;
  const all = (keyRules?.exact.size ?? 0) - wildcards + patterns.length + any.length;
  const tried = yield* judged([...exact, ...patterns, ...any], matched, isExact, (rule, isDecided) => {
    if (rule === matched) return { outcome: "matched", why: whyRuleMatches(rule, key, value) };
    if (!isDecided || rule.pattern.kind === "exact")
      return { outcome: "passed over", why: whyPassedOver(rule, key, value) };
    return { outcome: "not tried", why: whyNotTried(rule, matched, isExact, accepts(rule, key, value)) };
  });
  return { tried, left_out: all - tried.length };
}

// The exact value that matches comes first; of the other exact values only a few are listed.
function exactShown(
  keyRules: KeyRules | undefined,
  patterns: readonly Rule[],
  matched: Rule | undefined,
  isExact: boolean,
): Rule[] {
  const isPattern = new Set(patterns);
  const shown = matched === undefined || !isExact || isPattern.has(matched) ? [] : [matched];
  for (const rule of keyRules?.exact.values() ?? []) {
    if (shown.length >= EXACT_MAX) break;
    if (rule !== matched && !isPattern.has(rule)) shown.push(rule);
  }
  return shown;
}

/** The outcome of at most TRIED_MAX rules; the rule that matched is always among them. */
function* judged(
  rules: readonly Rule[],
  matched: Rule | undefined,
  isExact: boolean,
  judge: Judge,
): LongWork<readonly TriedRule[]> {
  const shown = rules.slice(0, TRIED_MAX);
  if (matched !== undefined && !shown.includes(matched)) shown.splice(TRIED_MAX - 1, 1, matched);
  const tried: TriedRule[] = [];
  let isDecided = isExact;
  for (const rule of shown) {
    yield;
    tried.push({ rule: textOf(rule.pathElement), where: formatPlace(rule.at), ...judge(rule, isDecided) });
    isDecided ||= rule === matched;
  }
  return tried;
}

function whyNotTried(rule: Rule, matched: Rule | undefined, isExact: boolean, wouldFit: boolean): string {
  const by = quoted(matched?.pathElement ?? "");
  const what = rule.pattern.kind === "any" ? "the rule for any value was" : "this pattern was";
  const because = isExact
    ? `${by} matched exactly, so ${what} not tried`
    : `${by} matched before, so ${what} not tried`;
  return wouldFit && rule.pattern.kind !== "any" ? `${because}, although it would fit` : because;
}

// Under COMPATIBILITY_MODE: the text `key_value`, then patterns on it in order, then the key alone. Of rules with other exact texts,
// only those with the entry's key are listed.
function* triedComposites(
  level: Level,
  { byText, patterns }: CompositeIndex,
  { key, value, matched }: Looked,
): LongWork<Tried> {
  const text = `${key}_${value}`;
  const exact = byText.get(text);
  const bare = byText.get(key);
  const isExact = matched !== undefined && matched === exact;
  const isPattern = new Set(patterns.map(({ rule }) => rule));
  const others = [...(level.byKey.get(key)?.exact.values() ?? [])].filter(
    (rule) => rule !== exact && !isPattern.has(rule),
  );
  const ends = [...isPattern, ...(bare === undefined ? [] : [bare])];
  const all = new Set([...(isExact ? [matched] : []), ...others.slice(0, EXACT_MAX), ...ends]);
  const piecesOf = new Map(patterns.map(({ rule, pieces }) => [rule, pieces]));
  const tried = yield* judged([...all], matched, isExact, (rule, isDecided) => {
    if (rule === matched) return { outcome: "matched", why: whyComposite(rule, key, value, isExact) };
    const pieces = piecesOf.get(rule);
    if (isDecided && (isPattern.has(rule) || rule === bare)) {
      const fits = isPattern.has(rule) && (pieces === undefined ? accepts(rule, key, value) : fitsPieces(pieces, text));
      return { outcome: "not tried", why: whyNotTried(rule, matched, isExact, fits) };
    }
    const why = pieces === undefined && isPattern.has(rule) ? whyPassedOver(rule, key, value) : undefined;
    return { outcome: "passed over", why: why ?? `${quoted(text)}, key and value as one, does not fit` };
  });
  return { tried, left_out: all.size - tried.length + Math.max(0, others.length - EXACT_MAX) };
}

function whyComposite(rule: Rule, key: string, value: string, isExact: boolean): string {
  if (rule.key === key || !isExact) return whyRuleMatches(rule, key, value);
  return `its key and value joined are ${quoted(`${key}_${value}`)}, as the entry's are`;
}
