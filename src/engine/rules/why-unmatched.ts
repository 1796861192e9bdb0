// Why no call matches a rule: compares the rule with descriptors that matched none, and with sibling rules that calls
// match. The hints are for people, so a likely cause is enough.

import { foldName, nearestName } from "../../base/near-name.ts";
import { listed, quoted } from "./limit-words.ts";
import { accepts } from "./match.ts";
import type { DomainRules, Rule } from "./rule-set.ts";
import { allRules, rulesOfTiers } from "./tiers.ts";

/** Descriptors with the same keys that met no rule, one-byte, with the values of some of them. */
export interface UnmatchedShape {
  readonly keys: readonly string[];
  readonly values: readonly (readonly string[])[];
}

/** Most other rules that are looked at: comparing 100 keys of 40 letters takes 7 ms. */
const RELATIVES_MAX = 100;

/**
 * The likeliest cause, as the end of a sentence. `chain` leads from the domain's root to the rule;
 * `isMet` tells whether calls match another rule.
 */
export function whyUnmatched(
  chain: readonly Rule[],
  domain: DomainRules,
  shapes: Iterable<UnmatchedShape>,
  isMet: (rule: Rule) => boolean,
): string {
  const { costEntries, root } = domain;
  const wanted = chain.map(({ key }) => key);
  let least = Number.POSITIVE_INFINITY;
  let says: string | undefined;
  for (const { keys: all, values } of shapes) {
    const at = [...all.keys()].filter((i) => !costEntries.has(all[i] as string));
    const of = (texts: readonly string[]) => at.map((i) => texts[i] as string);
    const keys = of(all);
    const isSame = keys.length === wanted.length && keys.every((key, i) => key === wanted[i]);
    // Less likely than another order or a misspelt name, likelier than a missing or surplus one.
    const distance = isSame ? 0.5 : distanceOf(keys, wanted);
    if (distance >= least) continue;
    least = distance;
    says = `calls came with ${listed(keys)}, but ${isSame ? whyValues(chain, values.map(of), domain) : `the rule wants ${listed(wanted)}`}`;
  }
  return says ?? whyOthers(chain, root.rules, isMet) ?? "no descriptor like it has come";
}

/** Number of surplus, missing or different names; Infinity if `keys` do not resemble `wanted`. */
function distanceOf(keys: readonly string[], wanted: readonly string[]): number {
  const shared = wanted.filter((name) => keys.some((key) => isNear(key, name))).length;
  const distance = Math.max(keys.length, wanted.length) - shared;
  const isLike = shared > 0 && (distance <= 1 || shared >= Math.min(keys.length, wanted.length));
  return isLike ? distance : Number.POSITIVE_INFINITY;
}

/** Why values under the rule's keys did not match. Shows a value only if it is nearly the rule's own. */
function whyValues(
  chain: readonly Rule[],
  values: UnmatchedShape["values"],
  { hiddenKeys }: Pick<DomainRules, "hiddenKeys">,
): string {
  const wrong = chain.findIndex((rule, i) => values.every((one) => !accepts(rule, rule.key, one[i] as string)));
  const rule = chain[wrong];
  if (rule === undefined) return "another rule takes these values";
  const { pattern, hashesValues, pathElement, key } = rule;
  const own = pattern.kind === "exact" && !hashesValues && !hiddenKeys.has(key) ? pattern.value : undefined;
  const near = own && values.map((one) => one[wrong] as string).find((value) => isNear(value, own));
  return `none with ${quoted(pathElement)}${near === undefined ? "" : `; one had ${quoted(`${key}=${near}`)}`}`;
}

/** What calls match instead: another tier or value, a rule that this one misspells, fewer entries, or more. */
function whyOthers(chain: readonly Rule[], roots: readonly Rule[], isMet: (rule: Rule) => boolean): string | undefined {
  const rule = chain.at(-1) as Rule;
  const { key, path, tiers, children } = rule;
  const anyMet = (one: Rule) => rulesOfTiers(one).some((tier) => tier !== rule && isMet(tier));
  if (anyMet(rule)) return `calls match the rule, but none is of this tier (entry ${quoted(tiers?.entry ?? "")})`;
  const other = firstOf(rulesAlong(chain, roots), anyMet);
  if (other !== undefined) return `calls match ${quoted(other.path)} instead; none has ${quoted(path)}`;
  const above = chain.slice(0, -1).findLast(anyMet);
  if (above !== undefined) return `calls match ${quoted(above.path)} instead: they have no ${quoted(key)} after it`;
  const below = children === undefined ? undefined : firstOf(allRules(children), anyMet);
  return below === undefined ? undefined : `calls match ${quoted(below.path)} instead: they have more entries`;
}

/** The rules whose keys resemble the chain's; undefined for each other rule that is visited. */
function* rulesAlong([first, ...below]: readonly Rule[], rules: readonly Rule[]): Generator<Rule | undefined> {
  for (const rule of rules) {
    const isAlong = first !== undefined && isNear(rule.key, first.key);
    yield isAlong && below.length === 0 ? rule : undefined;
    if (isAlong && rule.children !== undefined) yield* rulesAlong(below, rule.children.rules);
  }
}

function firstOf(rules: Iterable<Rule | undefined>, isWanted: (rule: Rule) => boolean): Rule | undefined {
  let looked = 0;
  for (const rule of rules) {
    if (rule !== undefined && isWanted(rule)) return rule;
    if (++looked === RELATIVES_MAX) return undefined;
  }
  return undefined;
}

/** Equal but for case and separators, a few letters off, or one within the other, as `tenant` in `tenant_id`. */
function isNear(one: string, other: string): boolean {
  if (one === other) return true;
  const [a, b] = [foldName(one), foldName(other)].toSorted((x, y) => x.length - y.length) as [string, string];
  return a === b || (a.length >= 3 && b.includes(a)) || (a.length >= 4 && nearestName(a, [b]) !== undefined);
}
