// Reads the tree of one file into drafts: rules with their patterns, limits and settings. build-rule.ts makes the checks that need more
// than one rule (duplicates, unreachable rules, names).

import type { LongWork } from "../base/long-work.ts";
import { SYNC_NAMES, Sync } from "../domain/limit.ts";
import { textOf } from "../domain/request.ts";
import { OTHER_DOMAINS } from "../domain/stats.ts";
import { Kind } from "../domain/take.ts";
import { readCostEntry, warnNoRoom } from "./cost.ts";
import { type Defaults, defaultPostPaid } from "./defaults.ts";
import {
  DomainDraft,
  type GlobalLimitDraft,
  type LimitDraft,
  type LimitsDraft,
  limitsOfDraft,
  type PatternDraft,
  type RuleDraft,
  type TierDraft,
} from "./draft.ts";
import {
  type Fields,
  isNull,
  readFields,
  readMappings,
  readSection,
  readSwitch,
  readText,
  readWord,
} from "./fields.ts";
import { type DefaultHold, type DefaultHolds, plainRule } from "./gateway-rules.ts";
import { checkHold, readHold } from "./hold.ts";
import { describeSource, formatPlace, type ProblemLog } from "./problems.ts";
import { readLimit, readOnStoreFailure } from "./read-limit.ts";
import { type LimitsByName, type ReadLimits, readLimits, readNamed, readWritten } from "./read-limits.ts";
import { readMetadata } from "./read-metadata.ts";
import { type Regexes, readPatterns } from "./read-pattern.ts";
import type { CostEntry } from "./rule-set.ts";
import { RULES_FAULT, RULES_MAX } from "./schema.ts";
import { isInResource, type MappingNode, type Place, type SourceFile } from "./source.ts";
import { checkTierLimits, readNamedChoice } from "./tiers.ts";

/** What is needed to read the files of a set. */
interface SetContext {
  /** True: files of one domain are merged. */
  readonly mergesDomains: boolean;
  readonly regexes: Regexes;
  readonly defaults: Defaults;
  readonly holds: DefaultHolds;
  /** The named limits by domain. */
  readonly named: ReadonlyMap<string, LimitsByName>;
  /** The domains that have been read so far. */
  readonly domains: Map<string, DomainDraft>;
  /** Rules read so far, each value of `one_of` not counted. Above RULES_MAX no more are read. */
  readonly read: { rules: number };
}

/** What is needed to read the rules of one file. */
interface FileContext {
  readonly draft: DomainDraft;
  readonly regexes: Regexes;
  readonly defaults: MappingNode | undefined;
  /** The default hold of the domain, for resources only. */
  readonly hold: DefaultHold | undefined;
  readonly named: LimitsByName;
  readonly isResource: boolean;
  readonly read: SetContext["read"];
}

const NO_LIMITS: LimitsByName = new Map();

/** Reads a parsed file into the draft of its domain, one rule or value per step. A file without a valid domain is only checked. */
export function* readFile(file: SourceFile, set: SetContext, log: ProblemLog): LongWork<void> {
  log.addAll(file.problems);
  const isResource = file.isResource === true;
  const root = readRoot(file, log);
  if (root === undefined) return;
  const fields = readFields("file", [root], log);
  const field = fields.get("domain");
  const domainAt = field?.value.at ?? (isResource ? root.at : topOf(file));
  const domain = readText(fields, "domain", log) ?? "";
  if (domain === "" && (field === undefined || field.value.kind === "scalar")) {
    log.error(domainAt, "the domain is missing or empty; every file needs one, as callers name it");
  }
  if (domain === OTHER_DOMAINS)
    log.error(domainAt, `metrics call all unknown domains '${OTHER_DOMAINS}'`, "Give it another domain.");
  const draft = draftOf(domain, domainAt, isResource, set, log);
  const defaults = set.defaults.get(domain);
  draft.files.push(file.name);
  draft.chargesGivenHits ||= isResource && defaultPostPaid(defaults, []) === undefined;
  const globalLimit = readGlobalLimit(fields, log);
  if (globalLimit !== undefined) draft.addGlobalLimit(globalLimit);
  const named = set.named.get(domain) ?? NO_LIMITS;
  const hold = isResource ? set.holds.get(domain) : undefined;
  const { regexes, read } = set;
  yield* readRules(fields, draft.rules, { draft, regexes, isResource, defaults, hold, named, read }, log);
}

/** The draft that a file adds to; one that nobody uses if the file has no domain, or another file has the same. */
function draftOf(
  domain: string,
  at: Place,
  isResource: boolean,
  { domains, mergesDomains }: SetContext,
  log: ProblemLog,
): DomainDraft {
  const own = new DomainDraft(domain, at);
  const known = domains.get(domain);
  if (domain === "") return own;
  if (known === undefined) {
    domains.set(domain, own);
    return own;
  }
  // The first file beside a control plane's resources is no conflict.
  const isFirstFile = !isResource && known.files.length === 1 && isInResource(known.at);
  if (mergesDomains || isFirstFile) return known;
  const message = `domain '${textOf(domain)}' stands at ${formatPlace(known.at)} already`;
  log.error(at, message, "Give it another domain, or set MERGE_DOMAIN_CONFIG=true to join the files.");
  return own;
}

function readRoot(file: SourceFile, log: ProblemLog): MappingNode | undefined {
  const { root } = file;
  if (root === undefined || root.kind === "mapping") return root;
  if (isNull(root)) log.error(topOf(file), "the file is empty: expected a 'domain' and its 'descriptors'");
  else log.error(root.at, `expected a mapping with 'domain' and 'descriptors', got ${describeSource(root)}`);
  return undefined;
}

function topOf({ name }: SourceFile): Place {
  return { file: name, line: 1, column: 1 };
}

function* readRules(fields: Fields, into: RuleDraft[], context: FileContext, log: ProblemLog): LongWork<void> {
  for (const written of readMappings(fields.get("descriptors"), log)) {
    yield;
    if (context.read.rules > RULES_MAX) return;
    if (++context.read.rules > RULES_MAX) log.error(written.at, RULES_FAULT);
    const mapping = context.isResource ? plainRule(written, context.hold, log) : written;
    const rule = readFields("rule", [mapping], log);
    const key = readText(rule, "key", log) ?? "";
    const patterns = yield* readPatterns(key, rule, context.regexes, log);
    const draft = readRule(key, patterns, rule, context, log);
    if (key !== "") {
      into.push(draft);
      context.draft.note(draft);
    }
    yield* readRules(rule, draft.children, context, log);
  }
}

/** Reads a rule without those below it. */
function readRule(
  key: string,
  patterns: readonly PatternDraft[],
  fields: Fields,
  context: FileContext,
  log: ProblemLog,
): RuleDraft {
  const { at } = fields;
  const { isResource } = context;
  const keyField = fields.get("key");
  if (key === "" && (keyField === undefined ? !fields.hasRefused : keyField.value.kind === "scalar")) {
    log.error(keyField?.value.at ?? at, "the rule's key is missing or empty");
  }
  const { hold, concurrent } = readHold(fields, log);
  const read = readChosen(fields, context, log);
  const limits = withConcurrent(read.limits, concurrent);
  const tier = read.tier === undefined ? undefined : tierWithConcurrent(read.tier, concurrent);
  // With a hold, the defaults' post_paid does not apply.
  const postPaid = hold === undefined || fields.given("post_paid") !== undefined ? read.postPaid : undefined;
  const draft: RuleDraft = {
    at,
    key,
    keyAt: keyField?.value.at ?? at,
    patterns,
    limits,
    limitsName: read.limitsName,
    tier,
    ...readModes(fields, log),
    isPostPaid: postPaid === true,
    chargesGivenHits: isResource && postPaid === undefined && hold === undefined,
    cost: readCost(fields, log),
    hold,
    onStoreFailure: readOnStoreFailure(fields, log),
    sharesThreshold: readSwitch(fields, "share_threshold", log),
    hashesValues: readSwitch(fields, "hash_values", log),
    detailedMetric: readSwitch(fields, "detailed_metric", log),
    valueToMetric: readSwitch(fields, "value_to_metric", log),
    metadata: readMetadata(fields.get("metadata"), log),
    children: [],
  };
  checkSharing(draft, fields, log);
  checkSettings(draft, fields, log);
  checkHold(draft, fields, log);
  return draft;
}

function readModes(fields: Fields, log: ProblemLog): { kind: Kind; isQuota: boolean } {
  const isShadow = readSwitch(fields, "shadow_mode", log);
  const isQuota = readSwitch(fields, "quota_mode", log);
  return { kind: isShadow ? Kind.shadow : isQuota ? Kind.quota : Kind.ordinary, isQuota };
}

function readCost(rule: Fields, log: ProblemLog): CostEntry | undefined {
  const section = readSection(rule.get("cost"), log);
  if (section === undefined) return undefined;
  const fields = readFields("cost", section, log);
  const cost = readCostEntry("cost", fields, log);
  if (cost === undefined && !fields.hasRefused && fields.firstGiven(["default", "max"]) === undefined)
    log.error(fields.at, "cost: 'entry' is missing; it names the entry that carries the cost");
  return cost;
}

/** All limits that may apply to a rule: its own, or named ones. */
interface ChosenLimits extends ReadLimits {
  /** Name of the limits; empty if the rule itself writes them. */
  readonly limitsName: string;
  readonly tier: TierDraft | undefined;
}

function readChosen(fields: Fields, { named, defaults }: FileContext, log: ProblemLog): ChosenLimits {
  const choice = readNamedChoice(fields, named, log);
  if (choice === undefined) {
    return { ...readLimits(fields, readWritten(fields, log), defaults, false, log), limitsName: "", tier: undefined };
  }
  const { byDefault, entry, among } = choice;
  const read = readNamed(fields, byDefault, defaults, entry !== undefined, log);
  if (entry === undefined) return { ...read, limitsName: byDefault.name, tier: undefined };
  const byName = new Map<string, LimitsDraft>();
  for (const limits of among) {
    byName.set(limits.name, limits === byDefault ? read.limits : readNamed(fields, limits, defaults, true, log).limits);
  }
  checkTierLimits(byName.values(), log);
  return { ...read, limitsName: byDefault.name, tier: { entry, byName } };
}

function withConcurrent(limits: LimitsDraft, concurrent: LimitDraft | undefined): LimitsDraft {
  if (concurrent === undefined || limits.isUnlimited) return limits;
  return { ...limits, hasLimit: true, limits: [...limits.limits, concurrent] };
}

/** Warns of named limits that no rule uses, and reports mistakes in them. Must be called when all files have been read. */
export function checkUnused({ named, defaults }: SetContext, log: ProblemLog): void {
  for (const [domain, ofDomain] of named) {
    for (const limits of ofDomain.values()) {
      if (limits.isUsed) continue;
      log.warn(limits.at, `${limits.title} is used by no rule`, "Take it by 'use' or 'tier', or remove it.");
      readLimits(readFields("rule", [], log), limits, defaults.get(domain), false, log);
    }
  }
}

function tierWithConcurrent(tier: TierDraft, concurrent: LimitDraft | undefined): TierDraft {
  const byName = [...tier.byName].map(([name, limits]): [string, LimitsDraft] => [
    name,
    withConcurrent(limits, concurrent),
  ]);
  return { ...tier, byName: new Map(byName) };
}

function readGlobalLimit(fields: Fields, log: ProblemLog): GlobalLimitDraft | undefined {
  const section = readSection(fields.get("global_limit"), log);
  if (section === undefined) return undefined;
  const limitFields = readFields("global limit", section, log);
  const limit = readLimit(limitFields, log);
  const countsHits = readWord(limitFields, "count", ["calls", "hits"], log) === 1;
  return limit === undefined ? undefined : { limit, countsHits };
}

const SHARING_HINT = "Remove it, or put a '*' into the value or use match with prefix, suffix, regex or cidr.";

function checkSharing(draft: RuleDraft, fields: Fields, log: ProblemLog): void {
  if (!draft.sharesThreshold) return;
  const unshared = draft.patterns.find(({ pattern }) => pattern.kind === "exact" || pattern.kind === "any");
  if (unshared === undefined) return;
  const at = fields.get("share_threshold")?.keyAt ?? fields.at;
  log.error(at, "share_threshold needs a pattern that several values match", SHARING_HINT);
}

// Reports settings that have no effect, because the rule has no limit or is unlimited. The reference's keys get a warning, because files
// that it accepts must load; our own keys get an error.
function checkSettings(draft: RuleDraft, fields: Fields, log: ProblemLog): void {
  const choices = limitsOfDraft(draft);
  const isUnlimited = choices.every((limits) => limits.isUnlimited);
  const reason = !draft.limits.hasLimit ? "a rule without a limit" : isUnlimited ? "an unlimited rule" : undefined;
  if (reason === undefined) {
    warnNoRoom(draft, fields, log);
    for (const { limits } of choices) {
      if (draft.isPostPaid) refuseSync(limits, log);
      else warnDebt(limits, log);
    }
    return;
  }
  const isOn = (name: string) => {
    const value = fields.given(name)?.value;
    return value !== undefined && !(value.kind === "scalar" && value.value.type === "boolean" && !value.value.boolean);
  };
  for (const name of ["shadow_mode", "quota_mode", "detailed_metric", "metadata"]) {
    // An unlimited quota descriptor is never over: beside it, other quota descriptors refuse no call.
    if (!isOn(name) || (name === "quota_mode" && draft.limits.hasLimit)) continue;
    log.warn(
      fields.get(name)?.keyAt ?? fields.at,
      `'${name}' means nothing on ${reason}: it reaches neither rules above nor below`,
    );
  }
  for (const name of ["cost", "post_paid", "on_store_failure", "hold"]) {
    if (!isOn(name)) continue;
    log.error(
      fields.get(name)?.keyAt ?? fields.at,
      `'${name}' means nothing on ${reason}`,
      "Move it to the rule that has the limit.",
    );
  }
}

function refuseSync(limits: readonly LimitDraft[], log: ProblemLog): void {
  for (const { sync, syncAt } of limits) {
    if (sync === Sync.exact) continue;
    const message = `sync: ${SYNC_NAMES[sync]} can't stand on a post-paid rule, whose hits are reported to the shared store in any case`;
    log.error(syncAt, message, "Leave 'sync' out.");
  }
}

function warnDebt(limits: readonly LimitDraft[], log: ProblemLog): void {
  for (const { debtMaxAt, name } of limits) {
    const which = name === "" ? "" : ` of '${textOf(name)}'`;
    if (debtMaxAt !== undefined)
      log.warn(debtMaxAt, `debt_max${which} means nothing without 'post_paid: true' on the rule`);
  }
}
