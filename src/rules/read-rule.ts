// Reads one file's tree into drafts: rules with their patterns, limits and settings. Checks that need more than the
// rule itself (duplicates, unreachable rules, names) are left to the builder.

import { Algorithm, SYNC_NAMES, Sync } from "../core/limit.ts";
import type { LongWork } from "../core/long-work.ts";
import { textOf } from "../core/request.ts";
import { Kind } from "../core/take.ts";
import {
  type AddedWords,
  addedWords,
  type Defaults,
  defaultPostPaid,
  withAddedWords,
  withoutOwnWords,
} from "./added-words.ts";
import type { DefaultHold, DefaultHolds } from "./default-holds.ts";
import type { FileDraft, GlobalLimitDraft, LimitDraft, LimitsDraft, RuleDraft } from "./draft.ts";
import { type Fields, isNull, readFields } from "./fields.ts";
import { describeSource, type ProblemLog } from "./problems.ts";
import { readCostEntry } from "./read-cost.ts";
import { checkHold, readHold } from "./read-hold.ts";
import { readLimit, readOnStoreFailure, readReplaces, readUnlimited } from "./read-limit.ts";
import { readMetadata } from "./read-metadata.ts";
import { readPatterns } from "./read-pattern.ts";
import { readMappings, readSection, readSwitch, readText, readWord } from "./readers.ts";
import type { Regexes } from "./regexes.ts";
import type { CostEntry } from "./rule-set.ts";
import { LIMITS_PER_RULE_MAX, LOGS_PER_RULE_MAX } from "./schema.ts";
import type { MappingNode, SourceFile } from "./source.ts";

/** What all files of a set are read with. */
interface ReadContext {
  readonly regexes: Regexes;
  readonly defaults: Defaults;
  readonly holds: DefaultHolds;
}

/** What the rules of one file are read with. */
interface FileContext {
  readonly regexes: Regexes;
  readonly defaults: MappingNode | undefined;
  /** Of a resource; undefined without one. */
  readonly hold: DefaultHold | undefined;
  readonly isResource: boolean;
}

/** Reads a parsed file, a rule or a piece of its pattern per step; undefined if it has no usable domain. */
export function* readFile(
  file: SourceFile,
  { regexes, defaults, holds }: ReadContext,
  log: ProblemLog,
): LongWork<FileDraft | undefined> {
  log.addAll(file.problems);
  const { root } = file;
  if (root === undefined) return undefined;
  const top = root.kind === "mapping" && file.isResource === true ? root.at : { file: file.name, line: 1, column: 1 };
  if (isNull(root)) {
    log.error(top, "the file is empty: expected a 'domain' and its 'descriptors'");
    return undefined;
  }
  if (root.kind !== "mapping") {
    log.error(root.at, `expected a mapping with 'domain' and 'descriptors', got ${describeSource(root)}`);
    return undefined;
  }
  const fields = readFields("file", [root], log);
  const field = fields.get("domain");
  const domain = readText(fields, "domain", log) ?? "";
  if (domain === "" && (field === undefined || field.value.kind === "scalar")) {
    log.error(field?.value.at ?? top, "the domain is missing or empty; every file needs one, as callers name it");
  }
  const globalLimit = readGlobalLimit(fields, log);
  const isResource = file.isResource === true;
  const hold = isResource ? holds.get(domain) : undefined;
  const rules = yield* readRules(fields, { regexes, isResource, defaults: defaults.get(domain), hold }, log);
  if (domain === "") return undefined;
  const chargesGivenHits = isResource && defaultPostPaid(defaults.get(domain), [], undefined) === undefined;
  const domainAt = field?.value.at ?? top;
  return { file: file.name, isResource, chargesGivenHits, domain, domainAt, globalLimit, rules };
}

function* readRules(fields: Fields, context: FileContext, log: ProblemLog): LongWork<RuleDraft[]> {
  const rules: RuleDraft[] = [];
  for (const mapping of readMappings(fields.get("descriptors"), log)) {
    const rule = yield* readRule(mapping, context, log);
    yield;
    if (rule !== undefined) rules.push(rule);
  }
  return rules;
}

function* readRule(written: MappingNode, context: FileContext, log: ProblemLog): LongWork<RuleDraft | undefined> {
  const { isResource, defaults } = context;
  const mapping = context.hold === undefined ? written : context.hold.placedAt(written, log);
  const added = addedWords(mapping, isResource, defaults, log);
  const fields = readFields("rule", added.rule === undefined ? [mapping] : [added.rule, mapping], log);
  const keyField = fields.get("key");
  const key = readText(fields, "key", log) ?? "";
  if (key === "" && (keyField === undefined || keyField.value.kind === "scalar")) {
    log.error(keyField?.value.at ?? mapping.at, "the rule's key is missing or empty");
  }
  const patterns = yield* readPatterns(key, fields, context.regexes, log);
  const { hold, concurrent } = readHold(fields, log);
  const read = readLimits(fields, added, log);
  const limits = withConcurrent(read.limits, concurrent);
  // A hold says by itself what is paid when.
  const postPaid = hold === undefined || fields.given("post_paid") !== undefined ? read.postPaid : undefined;
  const modes = readModes(fields, log);
  const draft: RuleDraft = {
    at: mapping.at,
    key,
    keyAt: keyField?.value.at ?? mapping.at,
    patterns,
    limits,
    kind: modes.kind,
    isQuota: modes.isQuota,
    isPostPaid: postPaid === true,
    chargesGivenHits: isResource && postPaid === undefined && hold === undefined,
    cost: readCost(fields, log),
    hold,
    onStoreFailure: readOnStoreFailure(fields, log),
    sharesThreshold: readSwitch(fields, "share_threshold", log),
    hashesValues: readSwitch(fields, "hash_values", log),
    detailedMetric: readSwitch(fields, "detailed_metric", log),
    valueToMetric: readSwitch(fields, "value_to_metric", log),
    metadata: readMetadata(withoutOwnWords(fields.get("metadata"), isResource), log),
    children: yield* readRules(fields, context, log),
  };
  checkSharing(draft, fields, log);
  checkSettings(draft, fields, log);
  checkHold(draft, fields, log);
  return key === "" ? undefined : draft;
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

/** A rule's limits, and what it or its domain's defaults say of `post_paid`; undefined if neither does. */
interface ReadLimits {
  readonly limits: LimitsDraft;
  readonly postPaid: boolean | undefined;
}

function readLimits(fields: Fields, added: AddedWords, log: ProblemLog): ReadLimits {
  const { sections, isList, at } = readSections(fields, log);
  const own = fields.given("post_paid") === undefined ? undefined : readSwitch(fields, "post_paid", log);
  const byDefault = defaultPostPaid(added.defaults, sections, added.limit);
  const beside = {
    takesNoSync: own ?? (byDefault === true || fields.given("hold") !== undefined),
    hasFailurePolicy: fields.given("on_store_failure") !== undefined,
  };
  const limits: LimitDraft[] = [];
  let unlimited: Fields | undefined;
  for (const section of sections) {
    const limitFields = readFields("limit", withAddedWords(section, added, beside), log);
    if (readSwitch(limitFields, "unlimited", log)) unlimited = limitFields;
    else {
      const limit = readLimit(limitFields, log);
      if (limit !== undefined) limits.push(limit);
    }
  }
  const logs = limits.filter(({ algorithm }) => algorithm === Algorithm.slidingLog);
  if (logs.length > LOGS_PER_RULE_MAX) {
    const message = `rate_limits: expected at most ${LOGS_PER_RULE_MAX} limits with algorithm: sliding_log, got ${logs.length}`;
    log.error(at, message, "Use algorithm: sliding_window for some of them.");
  }
  if (unlimited !== undefined) {
    if (sections.length > 1) log.error(unlimited.at, "an unlimited rule takes no other limits");
    return { limits: unlimitedDraft(unlimited, isList, log), postPaid: own };
  }
  const draft = { unlimitedName: "", unlimitedReplaces: [], unlimitedRequests: 0, limits, isList };
  const postPaid = own ?? (limits.length === 0 ? undefined : byDefault);
  return { limits: { ...draft, hasLimit: sections.length > 0, isUnlimited: false }, postPaid };
}

/** The mappings of each limit of a rule: those of `rate_limit`, or of the items of `rate_limits`; `at` is where they stand. */
function readSections(fields: Fields, log: ProblemLog) {
  const one = readSection(fields.get("rate_limit"), log);
  const listField = fields.given("rate_limits");
  const sections = one === undefined ? readMappings(listField, log).map((mapping) => [mapping]) : [one];
  const isList = one === undefined && listField !== undefined;
  const at = listField?.value.at ?? fields.at;
  if (one !== undefined && listField !== undefined) {
    log.error(listField.keyAt, "'rate_limits' can't stand beside 'rate_limit'", "Move the one limit into the list.");
  }
  if (isList && listField.value.kind === "sequence" && listField.value.items.length === 0) {
    log.error(at, "rate_limits: the list is empty", "Leave it out if the rule has no limit.");
  }
  if (sections.length > LIMITS_PER_RULE_MAX) {
    log.error(at, `rate_limits: expected at most ${LIMITS_PER_RULE_MAX} limits, got ${sections.length}`);
  }
  return { sections, isList, at };
}

function unlimitedDraft(fields: Fields, isList: boolean, log: ProblemLog): LimitsDraft {
  const unlimitedRequests = readUnlimited(fields, log);
  const unlimitedName = readText(fields, "name", log) ?? "";
  const unlimitedReplaces = readReplaces(fields, unlimitedName, log);
  const draft = { unlimitedName, unlimitedReplaces, unlimitedRequests, limits: [], isList };
  return { ...draft, hasLimit: true, isUnlimited: true };
}

function withConcurrent(limits: LimitsDraft, concurrent: LimitDraft | undefined): LimitsDraft {
  if (concurrent === undefined || limits.isUnlimited) return limits;
  return { ...limits, hasLimit: true, limits: [...limits.limits, concurrent] };
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

// What stands beside no limit, or beside the wrong one, would do nothing. Keys of the reference get a warning, because
// files that it accepts must load; our own get an error.
function checkSettings(draft: RuleDraft, fields: Fields, log: ProblemLog): void {
  const { limits } = draft;
  const reason = !limits.hasLimit ? "a rule without a limit" : limits.isUnlimited ? "an unlimited rule" : undefined;
  if (reason === undefined) {
    if (draft.isPostPaid) refuseSync(limits.limits, log);
    else warnDebt(limits.limits, log);
    return;
  }
  const isOn = (name: string) => {
    const value = fields.given(name)?.value;
    return value !== undefined && !(value.kind === "scalar" && value.value.type === "boolean" && !value.value.boolean);
  };
  for (const name of ["shadow_mode", "quota_mode", "detailed_metric", "metadata"]) {
    if (!isOn(name)) continue;
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
