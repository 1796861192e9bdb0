// Compiles parsed files to a RuleSet, and reports all problems found. No I/O: rule-sources/files/load.ts reads and
// parses.

import { type LongWork, runThrough } from "../../base/long-work.ts";
import { keyedOf } from "../domain/key-bytes.ts";
import { DomainStats, LimitStats } from "../domain/stats.ts";
import { buildAddresses } from "./address-groups.ts";
import { domainKeyPrefix, globalBucketKey } from "./bucket-key.ts";
import { buildLimit, type CompileOptions, type DomainContext, labelsOf } from "./build-limit.ts";
import { buildRoot } from "./build-rule.ts";
import { gatherDefaults } from "./defaults.ts";
import type { DomainDraft, GlobalLimitDraft } from "./draft.ts";
import { Fields } from "./fields.ts";
import { warnUnused } from "./gateway-rules.ts";
import { handedOutRules } from "./hand-out.ts";
import { limitsOnBucket } from "./priority.ts";
import { formatPlace, ProblemLog } from "./problems.ts";
import { checkUnused, gatherNamedLimits } from "./read-limits.ts";
import { Regexes } from "./read-pattern.ts";
import { readDefaultHolds, readFile } from "./read-rule.ts";
import { counterRules } from "./reference-rules.ts";
import { readRequired } from "./required.ts";
import type { DomainRules, GlobalLimit, RuleSet } from "./rule-set.ts";
import { RULES_MAX } from "./schema.ts";
import type { Problem, SourceFile } from "./source.ts";

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

/**
 * Compiles as compileRules does, in steps of at most one rule or value, so that calls can be answered in between. With
 * more errors than are shown, ends when the files are read.
 */
export function* compileSteps(files: readonly SourceFile[], options: CompileOptions): LongWork<CompileResult> {
  const log = new ProblemLog();
  const defaults = gatherDefaults(files, log);
  yield;
  const set = {
    mergesDomains: options.mergeDomains ?? false,
    regexes: new Regexes(),
    defaults,
    holds: readDefaultHolds(defaults, log),
    named: gatherNamedLimits(files, log),
    domains: new Map<string, DomainDraft>(),
    read: { rules: 0 },
  };
  for (const file of files) {
    yield;
    yield* readFile(file, set, log);
    if (set.read.rules > RULES_MAX || log.isFull) return { ruleSet: undefined, problems: log.sorted() };
  }
  if (options.isPartial !== true) warnUnused(set.holds, log);
  checkUnused(set.named, defaults, { log, isPartial: options.isPartial === true });
  const domains = new Map<string, DomainRules>();
  // A refused set must not create lasting stats. It is built anyway to find its other problems.
  const statsBook = (log.hasErrors ? undefined : options.statsBook) ?? { statsOf: () => new LimitStats() };
  const shared = { options: { ...options, statsBook }, log, ids: new Set<string>() };
  for (const draft of set.domains.values()) {
    yield;
    const section = defaults.get(draft.domain);
    const required = section && readRequired(new Fields("defaults", [section], new ProblemLog()));
    if (required !== undefined) draft.addRequired(required, section?.at ?? draft.at, log);
    domains.set(draft.domain, yield* buildDomain(draft, shared));
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

function* buildDomain(
  draft: DomainDraft,
  shared: Pick<DomainContext, "options" | "log" | "ids">,
): LongWork<DomainRules> {
  const { log, options } = shared;
  const { domain } = draft;
  const { cacheKeyPrefix = "", compatible = false } = options;
  const context: DomainContext = {
    ...shared,
    domain,
    addresses: yield* buildAddresses(draft.addresses, draft.rules),
    counters: compatible ? counterRules(cacheKeyPrefix, domain) : undefined,
    names: draft.names,
    calendars: new Map(),
    limits: [],
    hasReplaces: false,
    hiddenKeys: new Set(),
  };
  const keyPrefix = domainKeyPrefix(cacheKeyPrefix, domain);
  const root = yield* buildRoot(draft.rules, context);
  const globalLimit = buildGlobalLimit(draft.globalLimits, keyPrefix, context);
  if (options.isPartial !== true) yield* draft.warnUnknownReplaces(log);
  return {
    domain,
    keyPrefix,
    counters: context.counters,
    root,
    globalLimit,
    required: draft.required,
    addresses: context.addresses,
    costEntries: draft.sideEntries(log),
    settleEntries: draft.settleEntries,
    hasReplaces: context.hasReplaces,
    hasHashedValues: context.hiddenKeys.size > 0,
    hiddenKeys: context.hiddenKeys,
    chargesGivenHits: draft.chargesGivenHits,
    handedOut: handedOutRules(draft, compatible, log),
    // A refused set must not create lasting stats.
    stats: (log.hasErrors ? undefined : options.domainBook?.domainStatsOf(domain)) ?? new DomainStats(),
    limits: context.limits,
    files: draft.files,
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
    context.log.error(second.limit.at, `the domain already has a global_limit at ${formatPlace(draft.limit.at)}`);
  }
  const owner = {
    path: "",
    statPath: [],
    limitsName: "",
    readableName: "",
    onStoreFailure: undefined,
    isList: false,
    isOwnKind: true,
    holdSeconds: 0,
  };
  const [label] = labelsOf(draft.limit, owner);
  const limit = buildLimit(draft.limit, owner, label, context);
  context.limits.push(...limitsOnBucket(limit));
  return { limit, countsHits: draft.countsHits, key: keyedOf(globalBucketKey(keyPrefix, limit.keySuffix)) };
}
