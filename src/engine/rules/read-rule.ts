// Reads the tree of one file into drafts: rules with their patterns, limits and settings. build-rule.ts makes the
// checks that need more than one rule (duplicates, unreachable rules, names).

import type { LongWork } from "../../base/long-work.ts";
import { textOf } from "../domain/request.ts";
import { OTHER_DOMAINS } from "../domain/stats.ts";
import { Kind } from "../domain/take.ts";
import { readAddress } from "./address-groups.ts";
import { readCostEntry, warnNoRoom } from "./cost.ts";
import { type Defaults, defaultPostPaid } from "./defaults.ts";
import {
  DomainDraft,
  type GlobalLimitDraft,
  type LimitDraft,
  limitsOfDraft,
  type PatternDraft,
  type RuleDraft,
} from "./draft.ts";
import { Fields, isNull } from "./fields.ts";
import { type DefaultHold, type DefaultHolds, defaultHoldOf, plainRule } from "./gateway-rules.ts";
import { refuseGuarantees } from "./guarantee.ts";
import { checkHandOut, readHandOut } from "./hand-out.ts";
import { checkHold, readHold } from "./hold.ts";
import { formatPlace, type ProblemLog } from "./problems.ts";
import { readLimit, readOnStoreFailure, refuseSync } from "./read-limit.ts";
import { type LimitsByName, readRuleLimits } from "./read-limits.ts";
import { readMetadata } from "./read-metadata.ts";
import { type Regexes, readPatterns } from "./read-pattern.ts";
import { readRequired } from "./required.ts";
import type { CostEntry } from "./rule-set.ts";
import { RULES_FAULT, RULES_MAX } from "./schema.ts";
import { isInResource, type MappingNode, type Place, placeOfFile, type SourceFile } from "./source.ts";

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
  /**
   * How many rules those read so far become: each value of `one_of` gets its own copy of all below it, and each tier is
   * a rule.
   */
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

/**
 * Reads a parsed file into the draft of its domain, one rule or value per step. A file without a valid domain is only
 * checked.
 */
export function* readFile(file: SourceFile, set: SetContext, log: ProblemLog): LongWork<void> {
  log.addAll(file.problems);
  const isResource = file.isResource === true;
  const root = readRoot(file, log);
  if (root === undefined) return;
  const fields = new Fields("file", [root], log);
  const field = fields.get("domain");
  const domainAt = field?.value.at ?? (isResource ? root.at : placeOfFile(file.name));
  const domain = fields.text("domain") ?? "";
  if (domain === "" && (field === undefined || field.value.kind === "scalar")) {
    log.error(domainAt, "the domain is missing or empty; every file needs the domain that callers send");
  }
  if (domain === OTHER_DOMAINS)
    log.error(
      domainAt,
      `the domain '${OTHER_DOMAINS}' is reserved: metrics use it for all unknown domains`,
      "Choose another.",
    );
  const draft = draftOf(domain, domainAt, isResource, set, log);
  const defaults = set.defaults.get(domain);
  draft.files.push(file.name);
  draft.chargesGivenHits ||= isResource && defaultPostPaid(defaults, []) === undefined;
  const globalLimit = readGlobalLimit(fields.section("global_limit", "global limit"));
  if (globalLimit !== undefined) draft.addGlobalLimit(globalLimit);
  const required = readRequired(fields);
  if (required !== undefined) draft.addRequired(required, fields.keyAt("require"), log);
  const named = set.named.get(domain) ?? NO_LIMITS;
  const hold = isResource ? set.holds.get(domain) : undefined;
  const { regexes, read } = set;
  yield* readRules(fields, draft.rules, 1, { draft, regexes, isResource, defaults, hold, named, read });
}

/** Reads the holds of all defaults. Mistakes are reported; such a hold is left out. */
export function readDefaultHolds(defaults: Defaults, log: ProblemLog): DefaultHolds {
  const found = new Map<string, DefaultHold>();
  for (const [domain, mapping] of defaults) {
    const errorsBefore = log.errorCount;
    const { hold } = readHold(new Fields("defaults", [mapping], log));
    if (hold === undefined || log.errorCount > errorsBefore) continue;
    const made = defaultHoldOf(mapping, hold, log);
    if (made !== undefined) found.set(domain, made);
  }
  return found;
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
  // The first file alongside a control plane's resources is no conflict.
  const isFirstFile = !isResource && known.files.length === 1 && isInResource(known.at);
  if (mergesDomains || isFirstFile) return known;
  const message = `domain '${textOf(domain)}' is already defined at ${formatPlace(known.at)}`;
  log.error(at, message, "Choose another domain, or set MERGE_DOMAIN_CONFIG=true to merge the files.");
  return own;
}

function readRoot(file: SourceFile, log: ProblemLog): MappingNode | undefined {
  const { root } = file;
  if (root === undefined || root.kind === "mapping") return root;
  if (isNull(root)) log.error(placeOfFile(file.name), "the file is empty: expected a 'domain' and its 'descriptors'");
  else log.wrong(root, "expected a mapping with 'domain' and 'descriptors'");
  return undefined;
}

/**
 * `copies`: how many copies of these rules there will be. Stops above RULES_MAX rules in all, and when the log is full.
 */
function* readRules(fields: Fields, into: RuleDraft[], copies: number, context: FileContext): LongWork<void> {
  const { log } = fields;
  for (const written of fields.mappings("descriptors")) {
    yield;
    if (context.read.rules > RULES_MAX || log.isFull) return;
    const mapping = context.isResource ? plainRule(written, context.hold, log) : written;
    const rule = new Fields("rule", [mapping], log);
    const key = rule.text("key") ?? "";
    const patterns = yield* readPatterns(key, rule, context.regexes);
    const draft = readRule(key, patterns, rule, context);
    if (key !== "") {
      into.push(draft);
      context.draft.note(draft, log);
    }
    const own = copies * Math.max(1, patterns.length);
    context.read.rules += own * limitsOfDraft(draft).length;
    if (context.read.rules > RULES_MAX) log.error(written.at, RULES_FAULT);
    yield* readRules(rule, draft.children, own, context);
  }
}

/** Reads a rule without those below it. */
function readRule(key: string, patterns: readonly PatternDraft[], fields: Fields, context: FileContext): RuleDraft {
  const { isResource, named, defaults } = context;
  const keyField = fields.get("key");
  if (key === "" && (keyField === undefined ? !fields.hasRefused : keyField.value.kind === "scalar"))
    fields.log.error(fields.valueAt("key"), "the rule's key is missing or empty");
  const { hold, concurrent } = readHold(fields);
  const { limits, tier } = readRuleLimits(fields, named, defaults, concurrent);
  // With a hold, the defaults' post_paid does not apply.
  const postPaid = hold === undefined || fields.given("post_paid") !== undefined ? limits.postPaid : undefined;
  const isShadow = fields.flag("shadow_mode");
  const isQuota = fields.flag("quota_mode");
  const draft: RuleDraft = {
    at: fields.at,
    key,
    keyAt: fields.valueAt("key"),
    patterns,
    address: readAddress(key, fields),
    limits,
    tier,
    kind: isShadow ? Kind.shadow : isQuota ? Kind.quota : Kind.ordinary,
    isQuota,
    isPostPaid: postPaid === true,
    chargesGivenHits:
      fields.given("charge_given_hits") === undefined
        ? isResource && postPaid === undefined && hold === undefined
        : fields.flag("charge_given_hits"),
    cost: readCost(fields.section("cost", "cost")),
    hold,
    handOut: readHandOut(fields),
    onStoreFailure: readOnStoreFailure(fields),
    sharesThreshold: fields.flag("share_threshold"),
    hashesValues: fields.flag("hash_values"),
    detailedMetric: fields.flag("detailed_metric"),
    valueToMetric: fields.flag("value_to_metric"),
    isRare: fields.flag("rarely"),
    metadata: readMetadata(fields.get("metadata"), fields.log),
    children: [],
  };
  checkSharing(draft, fields);
  checkSettings(draft, fields);
  if (draft.isPostPaid && draft.chargesGivenHits)
    fields.refuse(
      "charge_given_hits",
      "'charge_given_hits' can't be combined with 'post_paid', which charges all hits in any case",
      "Keep one of the two.",
    );
  checkHold(draft, fields);
  refuseGuarantees(draft, fields);
  checkHandOut(draft, fields);
  return draft;
}

function readCost(fields: Fields | undefined): CostEntry | undefined {
  if (fields === undefined) return undefined;
  const cost = readCostEntry("cost", fields);
  if (cost === undefined && fields.firstGiven(["default", "max"]) === undefined)
    fields.missing("cost: 'entry' is missing; it names the entry that carries the cost");
  return cost;
}

function readGlobalLimit(fields: Fields | undefined): GlobalLimitDraft | undefined {
  if (fields === undefined) return undefined;
  const limit = readLimit(fields);
  const countsHits = fields.word("count", ["calls", "hits"]) === 1;
  return limit === undefined ? undefined : { limit, countsHits };
}

function checkSharing({ sharesThreshold, patterns }: RuleDraft, fields: Fields): void {
  if (!sharesThreshold || !patterns.some(({ pattern: { kind } }) => kind === "exact" || kind === "any")) return;
  const hint = "Remove it, or put a '*' into the value or use match with prefix, suffix, regex or cidr.";
  fields.log.error(fields.keyAt("share_threshold"), "share_threshold needs a pattern that several values match", hint);
}

// Reports settings that have no effect, because the rule has no limit or is unlimited. The reference's keys get a
// warning, because files that it accepts must load; our own keys get an error.
function checkSettings(draft: RuleDraft, fields: Fields): void {
  const { log } = fields;
  const choices = limitsOfDraft(draft);
  const isUnlimited = choices.every(({ unlimited }) => unlimited !== undefined);
  const reason = !draft.limits.hasLimit ? "a rule without a limit" : isUnlimited ? "an unlimited rule" : undefined;
  if (reason === undefined) {
    warnNoRoom(draft, fields);
    for (const limit of choices.flatMap(({ limits }) => limits)) {
      if (draft.isPostPaid) refuseSync(limit, POST_PAID_EXACT, log);
      else if (!draft.chargesGivenHits) warnDebt(limit, log);
    }
    return;
  }
  const isOn = (name: string) => {
    const value = fields.given(name)?.value;
    return value !== undefined && !(value.kind === "scalar" && value.value.type === "boolean" && !value.value.boolean);
  };
  // A gateway writes the words of its rule at each entry that leads to it.
  const isGenerated = draft.patterns.some(({ text }) => text === draft.key);
  for (const name of isGenerated ? [] : ["shadow_mode", "quota_mode", "detailed_metric", "metadata"].filter(isOn)) {
    // An unlimited quota descriptor is never over, so with it other quota descriptors refuse no call.
    if (name === "quota_mode" && draft.limits.hasLimit) continue;
    log.warn(fields.keyAt(name), `'${name}' has no effect on ${reason}: it applies to no rule above or below`);
  }
  for (const name of [
    "cost",
    "post_paid",
    "charge_given_hits",
    "on_store_failure",
    "hold",
    "hand_out",
    "rarely",
  ].filter(isOn))
    log.error(fields.keyAt(name), `'${name}' has no effect on ${reason}`, "Move it to the rule that has the limit.");
}

const POST_PAID_EXACT = "on a post-paid rule, whose hits always go to the shared store";

function warnDebt({ debtMaxAt, name }: LimitDraft, log: ProblemLog): void {
  const which = name === "" ? "" : ` of '${textOf(name)}'`;
  if (debtMaxAt !== undefined)
    log.warn(
      debtMaxAt,
      `debt_max${which} has no effect without 'post_paid: true' or 'charge_given_hits: true' on the rule`,
    );
}
