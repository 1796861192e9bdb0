// Lists which rules of a level were tried on an entry, in what order, and why each matched or not. explain.ts walks the
// levels; match.ts decides.

import type { LongWork } from "../../base/long-work.ts";
import { textOf } from "../domain/request.ts";
import type { TriedRule } from "./explain-report.ts";
import { quoted } from "./limit-words.ts";
import { accepts, fitsPieces } from "./match.ts";
import { formatPlace } from "./problems.ts";
import type { Level, Rule } from "./rule-set.ts";

/** Most rules listed per entry. */
export const TRIED_MAX = 30;
/** Most rules with exact values that are listed before the other rules. */
const EXACT_MAX = 10;

/** The rules of a level that are listed, and how many are not. */
export interface Tried {
  readonly tried: readonly TriedRule[];
  readonly left_out: number;
}

/**
 * The rules of a level in the order in which they are tried: exact values, patterns, the bare key. At most TRIED_MAX.
 */
export function* triedRules(level: Level, key: string, value: string, matched: Rule | undefined): LongWork<Tried> {
  const { rules, fits, isExact, left_out } = candidates(level, key, value, matched);
  const shown = rules.slice(0, TRIED_MAX);
  if (matched !== undefined && !shown.includes(matched)) shown.splice(TRIED_MAX - 1, 1, matched);
  const tried: TriedRule[] = [];
  let isDecided = isExact;
  for (const rule of shown) {
    yield;
    const doesFit = fits.get(rule);
    const judged: Pick<TriedRule, "outcome" | "why"> =
      rule === matched
        ? { outcome: "matched", why: whyMatched(level, rule, key, value, isExact) }
        : isDecided && doesFit !== undefined
          ? { outcome: "not tried", why: whyNotTried(rule, matched, isExact, doesFit()) }
          : { outcome: "passed over", why: whyNot(level, rule, key, value) };
    tried.push({ rule: textOf(rule.pathElement), where: formatPlace(rule.at), ...judged });
    isDecided ||= rule === matched;
  }
  return { tried, left_out: left_out + rules.length - tried.length };
}

/**
 * What may be listed of a level for an entry. `fits`: of patterns and the bare key, which are not tried once a rule has
 * matched, whether they would fit. `isExact`: the rule matched by its exact value. `left_out`: number of rules with
 * other exact values that are not among `rules`.
 */
function candidates(level: Level, key: string, value: string, matched: Rule | undefined) {
  const { composite, starKeyPatterns } = level;
  const keyRules = level.byKey.get(key);
  const text = `${key}_${value}`;
  const exactRule = composite === undefined ? keyRules?.exact.get(value) : composite.byText.get(text);
  const bare = composite === undefined ? keyRules?.any : composite.byText.get(key);
  const fits = new Map<Rule, () => boolean>();
  if (composite === undefined) {
    const patterns = starKeyPatterns.length > 0 ? starKeyPatterns : (keyRules?.patterns ?? []);
    for (const rule of patterns) fits.set(rule, () => accepts(rule, key, value));
  }
  for (const { rule, pieces } of composite?.patterns ?? [])
    fits.set(rule, () => (pieces === undefined ? accepts(rule, key, value) : fitsPieces(pieces, text)));
  if (bare !== undefined && !fits.has(bare)) fits.set(bare, () => false);
  const isExact = matched !== undefined && matched === exactRule;
  // The exact value that matches comes first; of the other exact values only a few are listed.
  const first = isExact && !fits.has(matched) ? [matched] : [];
  const others = [...(keyRules?.exact.values() ?? [])].filter((rule) => rule !== exactRule && !fits.has(rule));
  const shown = others.slice(0, EXACT_MAX - first.length);
  return { rules: [...first, ...shown, ...fits.keys()], fits, isExact, left_out: others.length - shown.length };
}

function whyMatched({ composite }: Level, rule: Rule, key: string, value: string, isExact: boolean): string {
  if (composite === undefined || rule.key === key || !isExact) return whyOf(rule, key, value).fits;
  return `its key and value joined are ${quoted(`${key}_${value}`)}, as the entry's are`;
}

function whyNot({ composite }: Level, rule: Rule, key: string, value: string): string {
  const isText = composite?.textOf(rule) !== undefined;
  return isText ? `${quoted(`${key}_${value}`)}, key and value as one, does not fit` : whyOf(rule, key, value).fails;
}

function whyNotTried(rule: Rule, matched: Rule | undefined, isExact: boolean, wouldFit: boolean): string {
  const by = quoted(matched?.pathElement ?? "");
  const what = rule.pattern.kind === "any" ? "the rule for any value was" : "this pattern was";
  const because = isExact
    ? `${by} matched exactly, so ${what} not tried`
    : `${by} matched before, so ${what} not tried`;
  return wouldFit ? `${because}, although it would fit` : because;
}

/** Why the rule accepts the entry, and why it does not, each as the end of a sentence. */
function whyOf(rule: Rule, key: string, value: string): { readonly fits: string; readonly fails: string } {
  const { pattern } = rule;
  if (rule.key !== key && pattern.kind !== "compositeWildcard") {
    const fits = `its key and value joined fit the entry's, ${quoted(`${key}_${value}`)}`;
    return { fits, fails: `key ${quoted(key)} is not ${quoted(rule.key)}` };
  }
  const own = quoted(value);
  const text = quoted(rule.patternText);
  switch (pattern.kind) {
    case "any": {
      const any = `takes any value of ${quoted(rule.key)}`;
      return { fits: any, fails: any };
    }
    case "exact":
      return { fits: `value is ${text}`, fails: `value ${own} is not ${quoted(pattern.value)}` };
    case "wildcard": {
      const fits = value === rule.patternText ? `value is the text ${text} itself` : `${own} fits ${text}`;
      return { fits, fails: `${own} does not fit ${text}` };
    }
    case "compositeWildcard": {
      const joined = quoted(`${key}_${value}`);
      const over = `the pattern ${quoted(pattern.pieces.join("*"))} over key and value`;
      return { fits: `${joined} fits ${over}`, fails: `${joined} does not fit ${over}` };
    }
    case "prefix":
      return verb(own, "begin", "begins", `with ${quoted(pattern.pieces.join(""))}`);
    case "suffix":
      return verb(own, "end", "ends", `with ${quoted(pattern.pieces.join(""))}`);
    case "regex":
      return verb(own, "match", "matches", `the regex ${quoted(pattern.source)}`);
    case "cidr": {
      const ranges = pattern.ranges.join(", ");
      return { fits: `${own} is an address in ${ranges}`, fails: `${own} is not an address in ${ranges}` };
    }
  }
}

function verb(subject: string, infinitive: string, third: string, object: string) {
  return { fits: `${subject} ${third} ${object}`, fails: `${subject} does not ${infinitive} ${object}` };
}
