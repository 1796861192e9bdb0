// Compiles parsed files to a RuleSet, and reports all problems found. No I/O: rule-sources/files/load.ts reads and parses.

import { type LongWork, runThrough } from "../base/long-work.ts";
import { keyedOf } from "../domain/key-bytes.ts";
import { LimitStats } from "../domain/limit-stats.ts";
import { textOf } from "../domain/request.ts";
import { UnmatchedStats } from "../domain/unmatched-stats.ts";
import { gatherDefaults } from "./added-keys.ts";
import { domainKeyPrefix, globalBucketKey } from "./bucket-key.ts";
import { type CompileOptions, LimitBuilder } from "./build-limit.ts";
import { buildRoot, countRules, type DomainContext } from "./build-rule.ts";
import { counterKeyPrefix } from "./counter-key.ts";
import { gatherHolds, warnUnused } from "./default-holds.ts";
import {
  type FileDraft,
  type GlobalLimitDraft,
  type LimitDraft,
  limitsOfDraft,
  type PlacedName,
  type RuleDraft,
} from "./draft.ts";
import { gatherNamedLimits, type LimitsByName } from "./named-limits.ts";
import { SafeNames } from "./names.ts";
import { limitsOnBucket } from "./priority.ts";
import { formatPlace, ProblemLog } from "./problems.ts";
import { checkUnused, readFile } from "./read-rule.ts";
import { Regexes } from "./regexes.ts";
import type { DomainRules, GlobalLimit, Problem, Rule, RuleSet } from "./rule-set.ts";
import { RULES_MAX } from "./schema.ts";
import type { Place, SourceFile } from "./source.ts";
import { rulesOfTiers } from "./tiers.ts";

export type { CompileOptions } from "./build-limit.ts";

/** The result of compiling a set of files. */
export interface CompileResult {
  /** Undefined if any problem is an error. */
  readonly ruleSet: RuleSet | undefined;
  /** All problems, warnings included, in the order of files and lines. */
  readonly problems: readonly Problem[];
}

/** Compiles files, in the given order, to an immutable rule set. One error refuses the whole set. */
export function compileRules(files: readonly SourceFile[], options: CompileOptions): CompileResult {
  return runThrough(compileSteps(files, options));
}

/** Compiles as compileRules does, in steps of at most one rule, so that calls can be answered in between. */
export function* compileSteps(files: readonly SourceFile[], options: CompileOptions): LongWork<CompileResult> {
  const log = new ProblemLog();
  const drafts: FileDraft[] = [];
  const defaults = gatherDefaults(files, log);
  yield;
  const holds = gatherHolds(defaults, log);
  const named = gatherNamedLimits(files, log);
  const context = { regexes: new Regexes(), defaults, holds, named };
  for (const file of files) {
    const draft = yield* readFile(file, context, log);
    if (draft !== undefined) drafts.push(draft);
    yield;
  }
  warnUnused(holds, log);
  checkUnused(context, log);
  const domains = new Map<string, DomainRules>();
  // A refused set must not create lasting stats. It is built anyway to find its other problems.
  const statsBook = log.hasErrors ? { statsOf: () => new LimitStats() } : options.statsBook;
  const ids = new Set<string>();
  let ruleCount = 0;
  for (const parts of yield* groupByDomain(drafts, options.mergeDomains ?? false, log)) {
    ruleCount += countRules(parts.flatMap((part) => part.rules));
    if (ruleCount > RULES_MAX) {
      log.error(
        parts[0].domainAt,
        `more than ${RULES_MAX} rules in all, each value of one_of counted with all below it`,
      );
      break;
    }
    const domain = yield* buildDomain(parts, { ...options, statsBook }, { ids, log, named });
    domains.set(domain.domain, domain);
  }
  const problems = log.sorted();
  if (log.hasErrors) return { ruleSet: undefined, problems };
  const ruleSet: RuleSet = {
    version: options.version ?? 1,
    hash: options.hash ?? "",
    domains,
    files: files.map((file) => file.name),
    warnings: problems,
  };
  return { ruleSet, problems };
}

/** The files of one domain, at least one. */
type DomainFiles = [FileDraft, ...FileDraft[]];

function* groupByDomain(drafts: readonly FileDraft[], mergeDomains: boolean, log: ProblemLog): LongWork<DomainFiles[]> {
  const groups = new Map<string, DomainFiles>();
  for (const draft of drafts) {
    yield;
    const group = groups.get(draft.domain);
    if (group === undefined) {
      groups.set(draft.domain, [draft]);
    } else if (mergeDomains || (group[0].isResource && isFirstFile(draft, group))) {
      group.push(draft);
    } else {
      const message = `domain '${textOf(draft.domain)}' stands at ${formatPlace(group[0].domainAt)} already`;
      log.error(draft.domainAt, message, "Give it another domain, or set MERGE_DOMAIN_CONFIG=true to join the files.");
    }
  }
  return [...groups.values()];
}

/** True if the draft is the first file of a domain that has only resources so far: that is no conflict. */
function isFirstFile(draft: FileDraft, group: DomainFiles): boolean {
  return !draft.isResource && group.every(({ isResource }) => isResource);
}

/** What all domains of a set share. */
interface SetContext {
  readonly ids: Set<string>;
  readonly named: ReadonlyMap<string, LimitsByName>;
  readonly log: ProblemLog;
}

function* buildDomain(parts: DomainFiles, options: CompileOptions, shared: SetContext): LongWork<DomainRules> {
  const { log } = shared;
  const { domain } = parts[0];
  const rules = parts.flatMap((part) => part.rules);
  const globalLimits = parts.flatMap((part) => (part.globalLimit === undefined ? [] : [part.globalLimit]));
  const names = new SafeNames(yield* namesOf(rules, globalLimits), log);
  yield;
  const limitBuilder = new LimitBuilder(options, names, shared.ids);
  const { cacheKeyPrefix = "", compatible = false } = options;
  const context: DomainContext = {
    domain,
    names,
    limitsNames: new SafeNames(shared.named.get(domain)?.values() ?? [], log),
    limitBuilder,
    compatible,
    log,
    limits: [],
    hasHashedValues: false,
  };
  const keyPrefix = domainKeyPrefix(cacheKeyPrefix, domain);
  const root = yield* buildRoot(rules, context);
  yield;
  const globalLimit = buildGlobalLimit(globalLimits, keyPrefix, context);
  yield* warnUnknownReplaces(rules, names, log);
  const costEntries = yield* checkSideEntries(rules, globalLimits, log);
  const settleEntries = yield* settleEntriesOf(rules);
  return {
    domain,
    keyPrefix,
    counterPrefix: compatible ? counterKeyPrefix(cacheKeyPrefix, domain) : undefined,
    root,
    globalLimit,
    costEntries,
    settleEntries,
    hasReplaces:
      context.limits.some((limit) => limit.policy.replaces.length > 0) || root.rules.some(replacesWhileUnlimited),
    hasHashedValues: context.hasHashedValues,
    chargesGivenHits: parts.some((part) => part.chargesGivenHits),
    // A refused set must not create lasting stats.
    unmatched: (log.hasErrors ? undefined : options.unmatchedBook?.unmatchedOf(domain)) ?? new UnmatchedStats(),
    limits: context.limits,
    files: parts.map((part) => part.file),
  };
}

function buildGlobalLimit(
  drafts: readonly GlobalLimitDraft[],
  keyPrefix: string,
  context: DomainContext,
): GlobalLimit | undefined {
  const [draft, second] = drafts;
  if (draft === undefined) return undefined;
  if (second !== undefined) {
    context.log.error(second.limit.at, `the domain has a global_limit at ${formatPlace(draft.limit.at)} already`);
  }
  const owner = {
    domain: context.domain,
    path: "",
    statPath: [],
    limitsName: "",
    readableName: "",
    onStoreFailure: undefined,
    isList: false,
    isOwnKind: true,
    holdSeconds: 0,
  };
  const limit = context.limitBuilder.build(draft.limit, owner);
  context.limits.push(...limitsOnBucket(limit));
  return { limit, countsHits: draft.countsHits, key: keyedOf(globalBucketKey(keyPrefix, limit.keySuffix)) };
}

function replacesWhileUnlimited(rule: Rule): boolean {
  return (
    rulesOfTiers(rule).some(({ unlimitedReplaces }) => unlimitedReplaces.length > 0) ||
    (rule.children?.rules.some(replacesWhileUnlimited) ?? false)
  );
}

function* namesOf(
  rules: readonly RuleDraft[],
  globalLimits: readonly GlobalLimitDraft[],
): LongWork<readonly PlacedName[]> {
  const names: PlacedName[] = [];
  for (const { limit } of globalLimits) if (limit.name !== "") names.push({ name: limit.name, at: limit.nameAt });
  for (const rule of eachRule(rules)) {
    yield;
    for (const { limits, unlimitedName } of limitsOfDraft(rule)) {
      if (unlimitedName !== "") names.push({ name: unlimitedName, at: rule.at });
      for (const limit of limits) if (limit.name !== "") names.push({ name: limit.name, at: limit.nameAt });
    }
  }
  return names;
}

function* eachRule(rules: readonly RuleDraft[]): Generator<RuleDraft> {
  for (const rule of rules) {
    yield rule;
    yield* eachRule(rule.children);
  }
}

function* warnUnknownReplaces(rules: readonly RuleDraft[], names: SafeNames, log: ProblemLog): LongWork<void> {
  for (const rule of eachRule(rules)) {
    yield;
    const replaced = limitsOfDraft(rule).flatMap(({ unlimitedReplaces, limits }) => [
      ...unlimitedReplaces,
      ...limits.flatMap((limit) => limit.replaces),
    ]);
    for (const { name, at } of replaced) {
      if (!names.has(name))
        log.warn(at, `replaces: no limit of this domain is named '${textOf(name)}', so nothing is replaced`);
    }
  }
}

/**
 * The keys of entries that matching skips. Reports rules that use one of them as their key, and entries that carry something in one
 * rule and mark settlements in another: all calls with them would be settlements, which are never refused.
 */
function* checkSideEntries(
  rules: readonly RuleDraft[],
  globalLimits: readonly GlobalLimitDraft[],
  log: ProblemLog,
): LongWork<ReadonlySet<string>> {
  const firstUse = new Map<string, SideUse>();
  const note = (entry: string, at: Place, says: string) => {
    if (!firstUse.has(entry)) firstUse.set(entry, { at, says });
  };
  const carried = new Map<string, SideUse>();
  const marks = new Map<string, Place>();
  const noteCarried = (entry: string, at: Place, says: string) => {
    note(entry, at, says);
    if (!carried.has(entry)) carried.set(entry, { at, says });
  };
  const notePriority = ({ priority }: LimitDraft) => {
    if (priority !== undefined) noteCarried(priority.entry, priority.at, "tells the priority");
  };
  for (const { limit } of globalLimits) notePriority(limit);
  for (const rule of eachRule(rules)) {
    yield;
    const { cost, hold, tier, at } = rule;
    if (tier !== undefined) noteCarried(tier.entry, at, "tells the tier");
    for (const { limits } of limitsOfDraft(rule)) limits.forEach(notePriority);
    if (cost?.entry !== undefined) noteCarried(cost.entry, at, "carries the cost");
    if (hold === undefined) continue;
    noteCarried(hold.idEntry, at, "names the holds");
    note(hold.settleEntry, at, "marks the settlements");
    if (hold.settleValue === undefined && !marks.has(hold.settleEntry)) marks.set(hold.settleEntry, at);
    if (hold.estimate?.entry !== undefined) noteCarried(hold.estimate.entry, at, "carries the estimate");
  }
  for (const rule of firstUse.size === 0 ? [] : eachRule(rules)) {
    yield;
    const use = firstUse.get(rule.key);
    if (use === undefined) continue;
    const message = `'${textOf(rule.key)}' ${use.says} of the rule at ${formatPlace(use.at)} and is skipped in matching, so it can't be a key`;
    log.error(rule.keyAt, message, "Rename the entry or the key.");
  }
  reportMarked(marks, carried, log);
  return new Set(firstUse.keys());
}

interface SideUse {
  readonly at: Place;
  /** What a rule uses the entry for, as the predicate of a sentence. */
  readonly says: string;
}

function reportMarked(marks: ReadonlyMap<string, Place>, carried: ReadonlyMap<string, SideUse>, log: ProblemLog): void {
  for (const [entry, markedAt] of marks) {
    const use = carried.get(entry);
    if (use === undefined) continue;
    const message = `'${textOf(entry)}' ${use.says} here, but marks settlements with any value by the rule at ${formatPlace(markedAt)}, so no call with it would be refused`;
    log.error(use.at, message, "Name different entries, or give that 'settle' a 'value'.");
  }
}

/** The entries that mark settlements, each with its values; no values means any (DomainRules.settleEntries). */
function* settleEntriesOf(rules: readonly RuleDraft[]): LongWork<DomainRules["settleEntries"]> {
  const found = new Map<string, Set<string>>();
  const anyValue = new Set<string>();
  for (const { hold } of eachRule(rules)) {
    yield;
    if (hold === undefined) continue;
    const { settleEntry, settleValue } = hold;
    if (settleValue === undefined) anyValue.add(settleEntry);
    else found.set(settleEntry, (found.get(settleEntry) ?? new Set()).add(settleValue));
  }
  // If one rule accepts any value of the entry, all values mark a settlement.
  for (const entry of anyValue) found.set(entry, new Set());
  return found;
}
