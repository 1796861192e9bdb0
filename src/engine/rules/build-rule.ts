// Makes the rules and levels that matching uses from the drafts; reports duplicates and rules that nothing can reach.

import { getOrInsert } from "../../base/get-or-insert.ts";
import type { LongWork } from "../../base/long-work.ts";
import type { Limit } from "../domain/limit.ts";
import { textOf } from "../domain/request.ts";
import { patternOfGroups } from "./address-groups.ts";
import {
  buildLimit,
  type DomainContext,
  keySuffixOf,
  type LimitOwner,
  labelsOf,
  namesOfReplaced,
} from "./build-limit.ts";
import type { LimitDraft, LimitsDraft, PatternDraft, RuleDraft } from "./draft.ts";
import { type GatewayEntry, gatewayName } from "./gateway-name.ts";
import { ANY_KEY } from "./match.ts";
import { printable, safeName } from "./names.ts";
import { limitsOnBucket } from "./priority.ts";
import { formatPlace, type ProblemLog } from "./problems.ts";
import { patternIdentity } from "./read-pattern.ts";
import type { Level, Rule } from "./rule-set.ts";
import { isInResource, type Place } from "./source.ts";
import { rulesOfTiers } from "./tiers.ts";
import { BypassCheck, warnHidden } from "./warn-rules.ts";

/** The rule above a level. */
interface Parent {
  readonly path: string;
  readonly statPath: readonly string[];
  /** The entries on the path to a control plane's rules; empty for rules of files. */
  readonly entries: readonly GatewayEntry[];
  readonly hashesValues: boolean;
}

/** Builds the root level of a domain, one rule per step. */
export function buildRoot(drafts: readonly RuleDraft[], context: DomainContext): LongWork<Level> {
  return buildLevel(drafts, { path: "", statPath: [], entries: [], hashesValues: false }, context);
}

// Each value of `one_of` becomes a rule of its own.
function* buildLevel(drafts: readonly RuleDraft[], parent: Parent, context: DomainContext): LongWork<Level> {
  const byKey = new Map<string, MutableKeyRules>();
  const rules: Rule[] = [];
  const bypasses = new BypassCheck();
  const seen = new Map<string, Place>();
  for (const draft of drafts) {
    for (const written of draft.patterns) {
      yield;
      const pattern = patternOfGroups(context.addresses.get(draft.key), written);
      if (isDuplicate(draft, pattern, seen, context)) continue;
      const place = placeOf(draft, pattern, parent, context);
      const rule = buildRule(draft, place, context);
      if (draft.children.length > 0) setChildren(rule, yield* buildLevel(draft.children, place, context));
      rules.push(rule);
      if (rule.pattern.kind !== "compositeWildcard") addToKey(byKey, rule, context.log);
      bypasses.add(rule, pattern.coversPrivateNetwork === true);
    }
  }
  // Rules of a control plane are generated, so the same advice would repeat for many of them.
  const isResource = drafts[0] !== undefined && isInResource(drafts[0].at);
  const isCompatible = context.options.compatible === true;
  if (!isCompatible && !isResource) bypasses.warn(context.log);
  // Matching tries the rule without a value last, wherever it is in the file.
  for (const { any, patterns } of byKey.values()) if (any !== undefined) warnHidden(any, patterns, context.log);
  const hasStarKey = rules.some(({ pattern: { kind } }) => kind === "compositeWildcard");
  return {
    byKey,
    starKeyPatterns: hasStarKey ? rules.filter(({ pattern: { kind } }) => kind !== "exact" && kind !== "any") : [],
    composite: context.counters?.indexOf(rules),
    rules,
  };
}

interface MutableKeyRules {
  readonly exact: Map<string, Rule>;
  readonly patterns: Rule[];
  any: Rule | undefined;
}

function addToKey(byKey: Map<string, MutableKeyRules>, rule: Rule, log: ProblemLog): void {
  const { kind } = rule.pattern;
  const ofKey = getOrInsert(byKey, rule.key, () => ({ exact: new Map(), patterns: [], any: undefined }));
  if (kind === "any") ofKey.any = rule;
  else if (kind === "exact") ofKey.exact.set(rule.patternText, rule);
  else {
    warnHidden(rule, ofKey.patterns, log);
    ofKey.patterns.push(rule);
    // As in the reference, a value equal to the wildcard's own text matches exactly.
    if (kind === "wildcard" && !ofKey.exact.has(rule.patternText)) ofKey.exact.set(rule.patternText, rule);
  }
}

/** True if an earlier rule of the level has the same key and pattern, which is an error. */
function isDuplicate(
  draft: RuleDraft,
  pattern: PatternDraft,
  seen: Map<string, Place>,
  { domain, log }: DomainContext,
): boolean {
  const isAny = pattern.pattern.kind === "any";
  const identity = JSON.stringify([draft.key, patternIdentity(pattern)]);
  const first = seen.get(identity);
  if (first === undefined) {
    seen.set(identity, isAny ? draft.at : pattern.at);
    return false;
  }
  const what = textOf(pattern.text === "" ? `key '${draft.key}'` : `key '${draft.key}' and value '${pattern.text}'`);
  const at = isAny ? draft.keyAt : pattern.at;
  if (isInResource(first) && !isInResource(at)) {
    // A mistake in a file must never refuse a control plane's set.
    const message = `${what} is already defined at ${formatPlace(first)}, so this rule and those below it are ignored`;
    log.warn(at, message, "Change its key or value, or remove it.");
    return true;
  }
  const message = `duplicate rule: ${what} is already defined at ${formatPlace(first)}, in domain '${textOf(domain)}'`;
  log.error(at, message, "Remove one of the two; a rule can have several limits, under 'rate_limits'.");
  return true;
}

/** Builds a rule with its tiers, without the rules below it. */
function buildRule(draft: RuleDraft, place: RulePlace, context: DomainContext): MutableRule {
  if (draft.hold !== undefined && context.options.compatible === true) {
    const hint = "Remove 'hold', or turn COMPATIBILITY_MODE off.";
    context.log.error(draft.at, "'hold' can't be used with COMPATIBILITY_MODE", hint);
  }
  const owner: Omit<LimitOwner, "isList" | "limitsName"> = {
    path: place.path,
    statPath: place.statPath,
    readableName: draft.limits.limits.length === 0 ? "" : printable(gatewayName(place.entries)),
    onStoreFailure: draft.onStoreFailure,
    isOwnKind: isOwnKind(draft) || place.hashesValues,
    holdSeconds: draft.hold?.seconds ?? 0,
  };
  const labels = new Map<string, Place>();
  const ruleWith = (limits: LimitsDraft): MutableRule => {
    const limitOwner = { ...owner, isList: limits.isList, limitsName: safeName(limits.name) };
    const built = buildLimits(limits.limits, limitOwner, labels, context);
    return makeRule(draft, place, limits, built, context);
  };
  const rule = ruleWith(draft.limits);
  if (draft.tier === undefined) return rule;
  const byName = new Map<string, MutableRule>();
  for (const limits of draft.tier.choices)
    byName.set(limits.name, limits.name === draft.limits.name ? rule : ruleWith(limits));
  const tiers = { entry: draft.tier.entry, byName };
  for (const one of byName.values()) one.tiers = tiers;
  return rule;
}

function setChildren(rule: MutableRule, children: Level): void {
  for (const one of rulesOfTiers(rule) as readonly MutableRule[]) one.children = children;
}

/** A rule's pattern and names, which are equal under all its tiers. It is the parent of the level below. */
interface RulePlace extends Parent, Pick<Rule, "pattern" | "patternText" | "pathElement"> {}

function placeOf(draft: RuleDraft, { pattern, text }: PatternDraft, parent: Parent, context: DomainContext): RulePlace {
  const isResource = isInResource(draft.at);
  // Gateways use the same text as key and value for routes and headers; it is shown once.
  const isTwice = isResource && text === draft.key;
  const pathElement = printable(text === "" || isTwice ? draft.key : `${draft.key}=${text}`);
  const hashesValues = draft.hashesValues || parent.hashesValues;
  if (hashesValues) context.hiddenKeys.add(draft.key.includes("*") ? ANY_KEY : draft.key);
  return {
    pattern,
    patternText: text,
    pathElement,
    path: parent.path === "" ? pathElement : `${parent.path}/${pathElement}`,
    statPath: [...parent.statPath, text === "" ? draft.key : `${draft.key}_${text}`],
    entries: isResource ? [...parent.entries, { key: draft.key, value: text }] : [],
    hashesValues,
  };
}

type MutableRule = Omit<Rule, "tiers" | "children"> & { tiers: Rule["tiers"]; children: Rule["children"] };

// The only object literal of rules, so that all rules have one shape and the decision path stays monomorphic.
function makeRule(
  draft: RuleDraft,
  { pattern, patternText, pathElement, path, hashesValues }: RulePlace,
  limits: LimitsDraft,
  built: readonly Limit[],
  context: DomainContext,
): MutableRule {
  const unlimitedReplaces = namesOfReplaced(limits.unlimited?.replaces ?? [], context);
  if (unlimitedReplaces.length > 0 || built.some(({ policy }) => policy.replaces.length > 0))
    context.hasReplaces = true;
  return {
    key: draft.key,
    pattern,
    patternText,
    pathElement,
    path,
    at: draft.at,
    hasLimit: limits.hasLimit,
    isUnlimited: limits.unlimited !== undefined,
    unlimitedReplaces,
    unlimitedRequests: limits.unlimited?.requests ?? 0,
    limits: built,
    limitsName: limits.name,
    tiers: undefined,
    kind: draft.kind,
    isQuota: draft.isQuota,
    isPostPaid: draft.isPostPaid,
    chargesGivenHits: draft.chargesGivenHits,
    cost: draft.cost,
    hold: draft.hold,
    handOut: draft.handOut,
    sharesThreshold: draft.sharesThreshold,
    hashesValues,
    detailedMetric: draft.detailedMetric,
    valueToMetric: draft.valueToMetric,
    isRare: draft.isRare,
    metadata: draft.metadata,
    children: undefined,
  };
}

function isOwnKind({ limits, isPostPaid, cost, hold }: RuleDraft): boolean {
  return limits.isList || limits.name !== "" || isPostPaid || cost !== undefined || hold !== undefined;
}

/** `labels`: labels of the rule's limits so far, under all its tiers. */
function buildLimits(
  drafts: readonly LimitDraft[],
  owner: LimitOwner,
  labels: Map<string, Place>,
  context: DomainContext,
): Limit[] {
  const seen = new Map<string, Place>();
  const limits: Limit[] = [];
  for (const draft of drafts) {
    const suffix = keySuffixOf(draft, draft.algorithm, draft.name);
    const first = seen.get(suffix);
    if (first !== undefined) {
      const message = `a limit with the same algorithm, window and name is already defined at ${formatPlace(first)}`;
      context.log.error(draft.nameAt, message, "Give each its own 'name'.");
      continue;
    }
    seen.set(suffix, draft.at);
    const [label, low] = labelsOf(draft, owner);
    for (const each of low === undefined ? [label] : [label, low]) {
      const other = labels.get(each);
      if (other === undefined) labels.set(each, draft.at);
      else {
        const message = `metrics and answers already use the name '${textOf(each)}' for the limit at ${formatPlace(other)}`;
        context.log.error(draft.nameAt, message, "Give one of them another 'name'.");
      }
    }
    limits.push(buildLimit(draft, owner, label, context));
  }
  for (const limit of limits) context.limits.push(...limitsOnBucket(limit));
  return limits;
}
