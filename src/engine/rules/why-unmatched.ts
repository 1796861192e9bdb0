// Why calls may pass a rule by: compares what the rule wants with descriptors that matched no rule, and with sibling rules that calls match.
// Gives hints for people, so a likely cause is enough.

import { nearestName } from "../base/near-name.ts";
import { listed, quoted } from "./explain-words.ts";
import { accepts } from "./match.ts";
import type { DomainRules, Rule } from "./rule-set.ts";
import { allRules, rulesOfTiers } from "./tiers.ts";

/** Descriptors with the same keys that met no rule, one-byte, with the values of some of them. */
export interface UnmatchedShape {
  readonly keys: readonly string[];
  readonly values: readonly (readonly string[])[];
}

/** Most sibling rules, or rules below, that are examined. */
const RELATIVES_MAX = 1_000;

/** Of those whose keys are compared letter by letter: 100 keys of 40 letters take 7 ms. */
const LIKE_MAX = 100;

/** The causes, the likelier first. */
const Cause = { order: 0, names: 1, value: 2, missing: 3, surplus: 4, other: 5 } as const;

interface Hint {
  readonly cause: number;
  readonly says: string;
}

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
  let best: Hint | undefined;
  for (const { keys, values } of shapes) {
    const at = [...keys.keys()].filter((i) => !costEntries.has(keys[i] as string));
    const of = (texts: readonly string[]) => at.map((i) => texts[i] as string);
    const hint = hintOf(chain, of(keys), values.map(of));
    if (hint !== undefined && hint.cause < (best?.cause ?? Number.POSITIVE_INFINITY)) best = hint;
  }
  return best?.says ?? whyOthers(chain, root.rules, isMet) ?? whyNone(chain, domain);
}

function hintOf(chain: readonly Rule[], keys: readonly string[], values: UnmatchedShape["values"]): Hint | undefined {
  const wanted = chain.map(({ key }) => key);
  const came = `calls came with ${listed(keys)}`;
  if (keys.length === wanted.length) {
    if (keys.every((key, i) => key === wanted[i]))
      return { cause: Cause.value, says: `${came}, ${whyValues(chain, values)}` };
    if (keys.toSorted().join() === wanted.toSorted().join())
      return { cause: Cause.order, says: `${came}, but the rule wants ${listed(wanted)}, in this order` };
    const far = keys.filter((key, i) => !isNear(key, wanted[i] as string)).length;
    if (far > 1 || far === keys.length) return undefined;
    return { cause: far === 0 ? Cause.names : Cause.other, says: `${came}, but the rule wants ${listed(wanted)}` };
  }
  const [isShort, left] = keys.length < wanted.length ? [true, leftOf(wanted, keys)] : [false, leftOf(keys, wanted)];
  if (left === undefined || keys.length === 0) return undefined;
  return isShort
    ? { cause: Cause.missing, says: `${came}, but the rule also wants ${listed(left)}` }
    : { cause: Cause.surplus, says: `${came}, but the rule has no ${listed(left)}` };
}

/** Why values of descriptors with the rule's keys did not match. A value is shown only if it is nearly the rule's own. */
function whyValues(chain: readonly Rule[], values: UnmatchedShape["values"]): string {
  const wrong = chain.findIndex((rule, i) => values.every((one) => !accepts(rule, rule.key, one[i] as string)));
  const rule = chain[wrong];
  if (rule === undefined) return "but another rule takes these values";
  const { pattern, hashesValues, pathElement, key } = rule;
  const own = pattern.kind === "exact" && !hashesValues ? pattern.value : undefined;
  const near = own && values.map((one) => one[wrong] as string).find((value) => isNear(value, own));
  return `but none with ${quoted(pathElement)}${near === undefined ? "" : `; one had ${quoted(`${key}=${near}`)}`}`;
}

/** What calls match instead: another tier or value, a rule that this one misspells, fewer entries, or more. */
function whyOthers(chain: readonly Rule[], roots: readonly Rule[], isMet: (rule: Rule) => boolean): string | undefined {
  const rule = chain.at(-1) as Rule;
  const { key, path, tiers, children } = rule;
  const anyMet = (one: Rule) => rulesOfTiers(one).some((tier) => tier !== rule && isMet(tier));
  if (anyMet(rule)) return `calls match the rule, but none is of this tier (entry ${quoted(tiers?.entry ?? "")})`;
  const level = chain.at(-2)?.children?.rules ?? roots;
  const other =
    firstOf(level, (one) => one.key === key && anyMet(one)) ??
    firstOf(rulesAlong(chain, roots), anyMet) ??
    firstOf(rulesAlong(chain, roots, isNear), anyMet, LIKE_MAX);
  if (other !== undefined) return `calls match ${quoted(other.path)} instead; none has ${quoted(path)}`;
  const above = chain.slice(0, -1).findLast(anyMet);
  if (above !== undefined) return `calls match ${quoted(above.path)} instead: they have no ${quoted(key)} after it`;
  const below = children === undefined ? undefined : firstOf(allRules(children), anyMet);
  return below === undefined ? undefined : `calls match ${quoted(below.path)} instead: they have more entries`;
}

/** Nothing was seen of such calls: what may have hidden them. */
function whyNone(chain: readonly Rule[], { root, required, limits, stats }: DomainRules): string {
  const rule = chain.at(-1) as Rule;
  const unlimited = firstOf(rulesAlong(chain, root.rules), ({ isUnlimited }) => isUnlimited);
  const names = rule.limits.map(({ names: { name } }) => name);
  const hidden = [
    unlimited && `all match ${quoted(unlimited.path)}, which is unlimited`,
    limits.some(({ policy }) => policy.replaces.some((name) => names.includes(name))) &&
      "limits that name it in `replaces` came with all of them",
    required?.refuses === true && stats.sum("incomplete") > 0 && "`require` refuses all of their calls",
  ];
  return ["no descriptor like it has come", ...hidden.filter((one) => typeof one === "string")].join(", or ");
}

/** All rules with the keys of the chain, or keys like them, among their siblings. */
function* rulesAlong(
  [first, ...below]: readonly Rule[],
  rules: readonly Rule[],
  isLike = (one: string, other: string) => one === other,
): Generator<Rule | undefined> {
  for (const rule of rules) {
    const isAlong = first !== undefined && isLike(rule.key, first.key);
    yield isAlong && below.length === 0 ? rule : undefined;
    if (isAlong && rule.children !== undefined) yield* rulesAlong(below, rule.children.rules, isLike);
  }
}

function firstOf(
  rules: Iterable<Rule | undefined>,
  isWanted: (rule: Rule) => boolean,
  max = RELATIVES_MAX,
): Rule | undefined {
  let looked = 0;
  for (const rule of rules) {
    if (rule !== undefined && isWanted(rule)) return rule;
    if (++looked === max) return undefined;
  }
  return undefined;
}

/** What is left of `all` without `part`, in whose order it has nearly the same names; undefined if it lacks one. */
function leftOf(all: readonly string[], part: readonly string[]): readonly string[] | undefined {
  let at = 0;
  const left = all.filter((name) => !(at < part.length && isNear(part[at] as string, name) && ++at > 0));
  return at === part.length ? left : undefined;
}

/** Equal but for case and separators, a few letters off, or one within the other, as `tenant` in `tenant_id`. */
function isNear(one: string, other: string): boolean {
  const [a, b] = [fold(one), fold(other)].toSorted((x, y) => x.length - y.length) as [string, string];
  return a === b || (a.length >= 3 && b.includes(a)) || (a.length >= 4 && nearestName(a, [b]) !== undefined);
}

function fold(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, "");
}
