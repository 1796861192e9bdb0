// Makes the rules and levels that matching uses of the drafts; reports duplicates and rules that nothing can reach.

import type { LongWork } from "../base/long-work.ts";
import type { Limit } from "../domain/limit.ts";
import { textOf } from "../domain/request.ts";
import { CONCURRENT_KEY_SUFFIX, limitKeySuffix } from "./bucket-key.ts";
import { type LimitBuilder, type LimitOwner, windowKeyOf } from "./build-limit.ts";
import { buildCompositeIndex } from "./composite.ts";
import type { LimitDraft, LimitsDraft, PatternDraft, RuleDraft } from "./draft.ts";
import { type GatewayEntry, gatewayName } from "./gateway-name.ts";
import type { SafeNames } from "./names.ts";
import { isInResource } from "./place.ts";
import { limitsOnBucket } from "./priority.ts";
import { formatPlace, type ProblemLog } from "./problems.ts";
import { patternIdentity } from "./read-pattern.ts";
import type { KeyRules, Level, Rule } from "./rule-set.ts";
import type { Place } from "./source.ts";
import { warnBypass } from "./warn-bypass.ts";
import { warnUnreachable } from "./warn-unreachable.ts";

/** What is needed to build the rules of one domain. */
export interface DomainContext {
  /** One-byte. */
  readonly domain: string;
  /** Safe names of limits. */
  readonly names: SafeNames;
  /** Safe names in the file's `limits`. */
  readonly limitsNames: SafeNames;
  readonly limitBuilder: LimitBuilder;
  /** COMPATIBILITY_MODE. */
  readonly compatible: boolean;
  readonly log: ProblemLog;
  /** Receives every limit built, in the order of the files. */
  readonly limits: Limit[];
  /** Set to true by the first rule that hides values. */
  hasHashedValues: boolean;
}

/** The rule above a level. */
interface Parent {
  readonly path: string;
  readonly statPath: readonly string[];
  /** The entries on the path to a control plane's rules; empty for rules of files. */
  readonly entries: readonly GatewayEntry[];
  readonly hashesValues: boolean;
}

/** The number of rules that the drafts become: each value of `one_of` gets its own copy of all rules below, and each tier is a rule. */
export function countRules(drafts: readonly RuleDraft[]): number {
  let count = 0;
  for (const { patterns, tier, children } of drafts) {
    count += patterns.length * ((tier?.byName.size ?? 1) + countRules(children));
  }
  return count;
}

/** Builds the root level of a domain, one rule per step. The drafts must become at most RULES_MAX rules (`countRules`). */
export function* buildRoot(drafts: readonly RuleDraft[], context: DomainContext): LongWork<Level> {
  return yield* buildLevel(drafts, { path: "", statPath: [], entries: [], hashesValues: false }, context);
}

interface MutableKeyRules {
  readonly exact: Map<string, Rule>;
  readonly patterns: Rule[];
  any: Rule | undefined;
}

function* buildLevel(drafts: readonly RuleDraft[], parent: Parent, context: DomainContext): LongWork<Level> {
  const byKey = new Map<string, MutableKeyRules>();
  const rules: Rule[] = [];
  const patterns: Rule[] = [];
  let hasStarKey = false;
  for (const [draft, pattern] of yield* distinctPatterns(drafts, context)) {
    const rule = yield* buildRule(draft, pattern, parent, context);
    yield;
    rules.push(rule);
    const { kind } = rule.pattern;
    if (kind === "compositeWildcard") {
      hasStarKey = true;
      patterns.push(rule);
      continue;
    }
    let keyRules = byKey.get(rule.key);
    if (keyRules === undefined) {
      keyRules = { exact: new Map(), patterns: [], any: undefined };
      byKey.set(rule.key, keyRules);
    }
    if (kind === "any") keyRules.any = rule;
    else if (kind === "exact") keyRules.exact.set(rule.patternText, rule);
    else {
      keyRules.patterns.push(rule);
      patterns.push(rule);
      // As in the reference, a value equal to the wildcard's own text matches exactly.
      if (kind === "wildcard" && !keyRules.exact.has(rule.patternText)) keyRules.exact.set(rule.patternText, rule);
    }
  }
  yield* warnUnreachable(rules, context.log);
  // Rules of a control plane are generated, so the same advice would repeat for many of them.
  if (!context.compatible && !(rules[0] !== undefined && isInResource(rules[0].at)))
    yield* warnBypass(rules, context.log);
  const frozen: ReadonlyMap<string, KeyRules> = byKey;
  return {
    byKey: frozen,
    starKeyPatterns: hasStarKey ? patterns : [],
    composite: context.compatible ? buildCompositeIndex(rules) : undefined,
    rules,
  };
}

// Makes each value of `one_of` a rule of its own. A second rule with the same key and pattern is an error.
function* distinctPatterns(
  drafts: readonly RuleDraft[],
  context: DomainContext,
): LongWork<[RuleDraft, PatternDraft][]> {
  const seen = new Map<string, Place>();
  const distinct: [RuleDraft, PatternDraft][] = [];
  for (const draft of drafts) {
    for (const pattern of draft.patterns) {
      yield;
      const identity = JSON.stringify([draft.key, patternIdentity(pattern)]);
      const first = seen.get(identity);
      if (first === undefined) {
        seen.set(identity, pattern.pattern.kind === "any" ? draft.at : pattern.at);
        distinct.push([draft, pattern]);
        continue;
      }
      const what = textOf(
        pattern.text === "" ? `key '${draft.key}'` : `key '${draft.key}' and value '${pattern.text}'`,
      );
      const at = pattern.pattern.kind === "any" ? draft.keyAt : pattern.at;
      if (isInResource(first) && !isInResource(at)) {
        // A mistake in a file must never refuse a control plane's set.
        const message = `${what} comes from ${formatPlace(first)}, so this rule and those below it are left out`;
        context.log.warn(at, message, "Give the rule another key or value, or remove it.");
        continue;
      }
      context.log.error(
        at,
        `duplicate rule: ${what} stands at ${formatPlace(first)} already, in domain '${textOf(context.domain)}'`,
        "Remove one of the two; one rule can have several limits, under 'rate_limits'.",
      );
    }
  }
  return distinct;
}

function* buildRule(
  draft: RuleDraft,
  patternDraft: PatternDraft,
  parent: Parent,
  context: DomainContext,
): LongWork<Rule> {
  const { pattern, text } = patternDraft;
  const { pathElement, path, statPath, entries } = namesOf(draft, text, parent);
  const hashesValues = draft.hashesValues || parent.hashesValues;
  if (draft.hold !== undefined) refuseHold(draft, context);
  if (hashesValues) context.hasHashedValues = true;
  const owner: Omit<LimitOwner, "isList" | "limitsName"> = {
    domain: context.domain,
    path,
    statPath,
    readableName: draft.limits.limits.length === 0 ? "" : visible(gatewayName(entries)),
    onStoreFailure: draft.onStoreFailure,
    isOwnKind: isOwnKind(draft) || hashesValues,
    holdSeconds: draft.hold?.seconds ?? 0,
  };
  const labels = new Map<string, Place>();
  const limitsOf = (limitsName: string, limits: LimitsDraft): OwnLimits => {
    const safeName = context.limitsNames.safe(limitsName);
    const limitOwner = { ...owner, isList: limits.isList, limitsName: safeName };
    const built = buildLimits(limits.limits, limitOwner, labels, context);
    return { limitsName, limits, built };
  };
  const own = limitsOf(draft.limitsName, draft.limits);
  const children =
    draft.children.length === 0
      ? undefined
      : yield* buildLevel(draft.children, { path, statPath, entries, hashesValues }, context);
  const place = { pattern, text, pathElement, path, hashesValues, children };
  const rule = makeRule(draft, place, own, context);
  if (draft.tier === undefined) return rule;
  const byName = new Map<string, MutableRule>();
  for (const [name, limits] of draft.tier.byName) {
    yield;
    byName.set(name, name === draft.limitsName ? rule : makeRule(draft, place, limitsOf(name, limits), context));
  }
  const tiers = { entry: draft.tier.entry, byName };
  for (const one of byName.values()) one.tiers = tiers;
  return rule;
}

/** The names of a rule: path element and path, stat path, and the entries for gateway-name.ts. */
function namesOf(draft: RuleDraft, text: string, parent: Parent) {
  // Gateways use the same text as key and value for routes and headers; it is shown once.
  const isTwice = isInResource(draft.at) && text === draft.key;
  const pathElement = visible(text === "" || isTwice ? draft.key : `${draft.key}=${text}`);
  const path = parent.path === "" ? pathElement : `${parent.path}/${pathElement}`;
  const statPath = [...parent.statPath, text === "" ? draft.key : `${draft.key}_${text}`];
  const entries = isInResource(draft.at) ? [...parent.entries, { key: draft.key, value: text }] : [];
  return { pathElement, path, statPath, entries };
}

type MutableRule = Omit<Rule, "tiers"> & { tiers: Rule["tiers"] };

/** The parts of a rule that are equal under all its tiers. */
interface RulePlace extends Pick<Rule, "pattern" | "pathElement" | "path" | "hashesValues" | "children"> {
  readonly text: string;
}

/** Limits of a rule, and the drafts that they were built from. */
interface OwnLimits {
  readonly limitsName: string;
  readonly limits: LimitsDraft;
  readonly built: readonly Limit[];
}

// The only object literal of rules, so that all rules have one shape and the decision path stays monomorphic.
function makeRule(
  draft: RuleDraft,
  { pattern, text, pathElement, path, hashesValues, children }: RulePlace,
  { limitsName, limits, built }: OwnLimits,
  { names }: DomainContext,
): MutableRule {
  return {
    key: draft.key,
    pattern,
    patternText: text,
    pathElement,
    path,
    at: draft.at,
    hasLimit: limits.hasLimit,
    isUnlimited: limits.isUnlimited,
    unlimitedReplaces: names.safeOfKnown(limits.unlimitedReplaces),
    unlimitedRequests: limits.unlimitedRequests,
    limits: built,
    limitsName,
    tiers: undefined,
    kind: draft.kind,
    isQuota: draft.isQuota,
    isPostPaid: draft.isPostPaid,
    chargesGivenHits: draft.chargesGivenHits,
    cost: draft.cost,
    hold: draft.hold,
    sharesThreshold: draft.sharesThreshold,
    hashesValues,
    detailedMetric: draft.detailedMetric,
    valueToMetric: draft.valueToMetric,
    metadata: draft.metadata,
    children,
  };
}

function refuseHold({ at }: RuleDraft, { compatible, log }: DomainContext): void {
  if (!compatible) return;
  const hint = "Leave 'hold' out, or COMPATIBILITY_MODE off.";
  log.error(at, "'hold' means nothing to the counters of COMPATIBILITY_MODE", hint);
}

function isOwnKind({ limits, limitsName, isPostPaid, cost, hold }: RuleDraft): boolean {
  return limits.isList || limitsName !== "" || isPostPaid || cost !== undefined || hold !== undefined;
}

/** `labels` are those of the rule's limits so far, under all its tiers. */
function buildLimits(
  drafts: readonly LimitDraft[],
  owner: LimitOwner,
  labels: Map<string, Place>,
  context: DomainContext,
): Limit[] {
  const seen = new Map<string, Place>();
  const limits: Limit[] = [];
  for (const draft of drafts) {
    const suffix = draft.isConcurrent
      ? CONCURRENT_KEY_SUFFIX
      : limitKeySuffix(draft.algorithm, windowKeyOf(draft), draft.name);
    const first = seen.get(suffix);
    if (first !== undefined) {
      const message = `a limit with the same algorithm, window and name stands at ${formatPlace(first)} already`;
      context.log.error(draft.nameAt, message, "Give each a 'name' of its own.");
      continue;
    }
    seen.set(suffix, draft.at);
    for (const label of context.limitBuilder.labelsOf(draft, owner)) {
      const other = labels.get(label);
      if (other === undefined) labels.set(label, draft.at);
      else {
        const message = `metrics and answers call this limit '${textOf(label)}', as they call the one at ${formatPlace(other)}`;
        context.log.error(draft.nameAt, message, "Give one of them another 'name'.");
      }
    }
    limits.push(context.limitBuilder.build(draft, owner));
  }
  for (const limit of limits) context.limits.push(...limitsOnBucket(limit));
  return limits;
}

// Paths are shown in metadata, logs and pages, which a line feed in a value must not break.
function visible(text: string): string {
  let shown = "";
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    shown += code < 0x20 || code === 0x7f ? `%${code.toString(16).padStart(2, "0")}` : text.charAt(i);
  }
  return shown;
}
