// Explains which rule applies to a descriptor and why, with its limits and buckets. Uses match.ts at every level, so
// that both can't disagree (test/unit/engine/rules/explain.test.ts).

import { type LongWork, runThrough } from "../../base/long-work.ts";
import { KeyBytes } from "../domain/key-bytes.ts";
import { ALGORITHM_NAMES, type Limit, ON_STORE_FAILURE_NAMES, SYNC_NAMES } from "../domain/limit.ts";
import { Descriptor, oneByteOf, oneByteValueOf, textOf, type WrittenEntry } from "../domain/request.ts";
import { Kind } from "../domain/take.ts";
import { isAddress, valueInRules } from "./address-groups.ts";
import { writeBaseKey } from "./bucket-key.ts";
import { costOf } from "./cost.ts";
import type { DescriptorReport, EntryReport, ExplainReport, LimitReport } from "./explain-report.ts";
import { type Tried, triedRules } from "./explain-tried.ts";
import { limitWords, listed, quoted } from "./limit-words.ts";
import { findChild } from "./match.ts";
import { limitForCall, limitForDescriptor } from "./priority.ts";
import { formatPlace } from "./problems.ts";
import type { DomainRules, KeyRules, Level, Rule, RuleSet } from "./rule-set.ts";
import { isSettlement, marksSettlement } from "./settle-entries.ts";
import { suggestionFor } from "./suggest.ts";
import { ruleOfTier } from "./tiers.ts";

/** Most names that are compared with a misspelt one, which bounds the time of a question. */
const COMPARED_MAX = 200;
/** Most rules that are searched for a key at another level. */
const SEARCHED_MAX = 10_000;

/** Explains a whole call in steps of one rule: each descriptor, and the domain's global limit. */
export function* explainSteps(
  rules: RuleSet,
  domain: string,
  descriptors: readonly (readonly WrittenEntry[])[],
): LongWork<ExplainReport> {
  const head = { domain, version: rules.version, hash: rules.hash };
  const domainRules = rules.domains.get(oneByteOf(domain));
  if (domainRules === undefined) {
    const names = [...rules.domains.keys()];
    const says =
      names.length === 0
        ? "there are no rules at all, so every call passes"
        : `no rules are for domain ${quoted(oneByteOf(domain))}, so every call passes; domains: ${listed(names)}`;
    return { ...head, says, ...didYouMean(domain, names.map(textOf)), descriptors: [] };
  }
  const walks: Walk[] = [];
  for (const entries of descriptors) walks.push(yield* walkEntries(domainRules, entries));
  const replaced = new Set(walks.flatMap(replacedBy));
  const reports = walks.map((walk) => descriptorReport(domainRules, walk, replaced));
  const limited = reports.filter((report) => report.limits.length > 0).length;
  const globalLimit = globalReportOf(domainRules, walks);
  const found =
    reports.length === 1
      ? `the descriptor has ${limited === 0 ? "no limit" : "a limit"}`
      : `${limited} of ${reports.length} descriptors have a limit`;
  const there = new Set(descriptors.flat().map(({ key }) => oneByteOf(key)));
  const missing = domainRules.required?.keys.find((key) => !there.has(key));
  const says = [
    globalLimit === undefined ? found : `${found}; every call also pays the domain's global limit`,
    ...(missing === undefined ? [] : [missingWords(missing, domainRules)]),
  ].join("; ");
  return {
    ...head,
    says,
    ...(missing === undefined ? {} : { missing: textOf(missing) }),
    descriptors: reports,
    ...(globalLimit && { global_limit: globalLimit }),
  };
}

function missingWords(missing: string, { required }: DomainRules): string {
  const does = required?.refuses === true ? "the call is refused and pays nothing" : "the call is counted";
  return `the domain requires ${quoted(missing)}, which no descriptor has: ${does}`;
}

/** Explains a call at once, for processes that answer no calls. */
export function explainRequest(
  rules: RuleSet,
  domain: string,
  descriptors: readonly (readonly WrittenEntry[])[],
): ExplainReport {
  return runThrough(explainSteps(rules, domain, descriptors));
}

function descriptorReport(domain: DomainRules, walk: Walk, replaced: ReadonlySet<string>): DescriptorReport {
  const { rule, entries, descriptor } = walk;
  const costEntry = rule?.hold === undefined ? rule?.cost : rule.hold.estimate;
  const cost = costOf(1, costEntry, descriptor);
  // As in the limiter: a settlement pays limits with holds only.
  const paysNothing = walk.settles && rule?.hold === undefined;
  if (rule === undefined || paysNothing) return { outcome: "no limit", ...walk.end, entries, cost, limits: [] };
  const keys = new KeyBytes();
  writeBaseKey(keys, domain, descriptor, walk.matched, rule.hashesValues);
  const base = keys.textFrom(0);
  const isReplaced = (limit: Limit) => limit.names.name !== "" && replaced.has(limit.names.name);
  const keyOf = (limit: Limit) =>
    domain.counters !== undefined && limit.isCounter
      ? `${domain.counters.keyOf(domain, descriptor, walk.matched)}<start of the window>`
      : base + limit.keySuffix;
  const limits = rule.limits.map((limit) =>
    limitReport(limitForDescriptor(limit, descriptor), keyOf(limit), isReplaced(limit)),
  );
  const kind = rule.kind === Kind.shadow ? "shadow" : rule.isQuota ? "quota" : "ordinary";
  return {
    outcome: rule.isUnlimited ? "unlimited" : "limited",
    ...walk.end,
    entries,
    rule: {
      path: textOf(rule.path),
      where: formatPlace(rule.at),
      kind,
      post_paid: rule.isPostPaid,
      ...(rule.hold === undefined ? {} : { hold: walk.settles ? "settled" : "opened" }),
      ...(costEntry === undefined || costEntry.per === 1 ? {} : { per: costEntry.per }),
    },
    cost,
    limits,
  };
}

interface Ending {
  readonly says: string;
  readonly suggestion?: string;
}

interface Walk {
  readonly descriptor: Descriptor;
  readonly entries: readonly EntryReport[];
  /** The rule whose limits apply. */
  readonly rule: Rule | undefined;
  readonly end: Ending;
  /** The rule of each entry that was matched. */
  readonly matched: readonly Rule[];
  /** True if an entry marks the descriptor as a settlement. */
  readonly settles: boolean;
}

function* walkEntries(domain: DomainRules, asked: readonly WrittenEntry[]): LongWork<Walk> {
  const entries: EntryReport[] = [];
  const matched: Rule[] = [];
  let level: Level | undefined = domain.root;
  let end: Ending | undefined;
  for (const entry of asked) {
    const key = oneByteOf(entry.key);
    const value = valueInRules(domain, key, oneByteValueOf(entry));
    const add = (outcome: EntryReport["outcome"], says: string, listed: Tried = NOTHING_TRIED) => {
      entries.push({ ...shownEntry(entry), outcome, ...listed, says });
    };
    yield;
    if (domain.costEntries.has(key)) {
      add("cost", `${whySkipped(domain, key, value)} this domain: skipped in matching`);
    } else if (end !== undefined) add("not reached", "not reached");
    else if (level === undefined) {
      end = pathEnded(matched.at(-1), key);
      add("no match", "no rules are left to try");
    } else {
      const rule = findChild(level, key, value);
      yield;
      const tried = yield* triedRules(level, key, value, rule);
      if (rule === undefined) {
        add("no match", "no rule accepts this entry", tried);
        end = noMatch(domain, level, key, value);
      } else {
        add("matched", `matched by ${quoted(rule.pathElement)}${asAddress(domain, key, value)}`, tried);
        matched.push(rule);
        level = rule.children;
      }
    }
  }
  const base = end === undefined ? matched.at(-1) : undefined;
  const descriptor = descriptorOf(domain, asked);
  const last = base?.tiers === undefined ? base : ruleOfTier(base, base.tiers, descriptor);
  const settles = isSettlement(descriptor, domain.settleEntries);
  return {
    descriptor,
    entries,
    rule: last?.hasLimit ? last : undefined,
    end: end ?? (settles ? settled(last) : reached(last, descriptor)),
    matched,
    settles,
  };
}

/** An entry in JSON: with its bytes, too, if they are no text. */
export function shownEntry({
  key,
  value,
  valueBase64,
}: WrittenEntry): Pick<EntryReport, "key" | "value" | "value_base64"> {
  return valueBase64 === undefined ? { key, value } : { key, value, value_base64: valueBase64 };
}

/** How a value of a key with `address` was read; empty for other keys. */
function asAddress({ addresses }: DomainRules, key: string, value: string): string {
  if (!addresses.has(key)) return "";
  return isAddress(value) ? ` as the address ${quoted(value)}` : " as text, because it is no address";
}

function whySkipped({ settleEntries }: DomainRules, key: string, value: string): string {
  const settles = marksSettlement(key, value, settleEntries);
  return settles ? "marks a settlement in" : "carries a cost, a hold, a priority or a tier of";
}

const NOTHING_TRIED: Tried = { tried: [], left_out: 0 };

function pathEnded(rule: Rule | undefined, key: string): Ending {
  if (rule === undefined) return { says: "the domain has no rules for descriptors" };
  const says = `the path of rules ends at ${quoted(rule.path)}, which has no rules below it`;
  if (!rule.hasLimit) return { says };
  return {
    says: `${says}; its own limit is not applied, because more entries follow`,
    suggestion: `If ${quoted(key)} carries a cost, say so at that rule: cost: { entry: ${textOf(key)} }.`,
  };
}

function noMatch(domain: DomainRules, level: Level, key: string, value: string): Ending {
  const ofKey = level.byKey.get(key);
  if (ofKey !== undefined) {
    const values = firstOf(patternTexts(ofKey), COMPARED_MAX);
    const more = ofKey.exact.size + ofKey.patterns.length > values.length ? " among others" : "";
    return {
      says: `no rule for key ${quoted(key)} accepts value ${quoted(value)}; values here: ${listed(values)}${more}`,
      ...didYouMean(textOf(value), values.map(textOf)),
    };
  }
  const keys = keysOf(level);
  if (keys.length === 0) return { says: "the domain has no rules for descriptors" };
  const says = `no rule has key ${quoted(key)} at this level; keys here: ${listed(keys)}`;
  const near = didYouMean(textOf(key), keys.map(textOf));
  const elsewhere = near.suggestion === undefined ? findKey(domain.root, key) : undefined;
  if (elsewhere === undefined) return { says, ...near };
  const suggestion = `The order of entries matters; a rule with key ${quoted(key)} is at ${quoted(elsewhere.path)}.`;
  return { says, suggestion };
}

/** The first keys of a level, those with stars last. */
function keysOf(level: Level): readonly string[] {
  const starKeys = level.starKeyPatterns
    .filter((rule) => rule.pattern.kind === "compositeWildcard")
    .map((rule) => rule.key);
  return [...new Set([...firstOf(level.byKey.keys(), COMPARED_MAX), ...starKeys.slice(0, COMPARED_MAX)])];
}

/** The patterns of a key's rules, as written. */
function* patternTexts(rules: KeyRules): Generator<string> {
  for (const rule of rules.exact.values()) yield rule.patternText;
  for (const rule of rules.patterns) if (rule.pattern.kind !== "wildcard") yield rule.patternText;
}

function firstOf<T>(items: Iterable<T>, most: number): readonly T[] {
  const first: T[] = [];
  for (const item of items) {
    if (first.length >= most) break;
    first.push(item);
  }
  return first;
}

function settled(rule: Rule | undefined): Ending {
  if (rule?.hold !== undefined) return { says: `the descriptor settles a hold of the rule ${quoted(rule.path)}` };
  const what = rule === undefined ? "no rule" : `the rule ${quoted(rule.path)}, which has no holds`;
  return { says: `the descriptor settles a hold, but leads to ${what}: nothing is paid` };
}

function reached(rule: Rule | undefined, descriptor: Descriptor): Ending {
  if (rule === undefined) return { says: "the descriptor has no entries to match, so it has no limit" };
  const named = rule.limitsName === "" ? "" : ` with the limits ${quoted(rule.limitsName)}${whyTier(rule, descriptor)}`;
  if (rule.isUnlimited)
    return { says: `the rule ${quoted(rule.path)} is unlimited${named}: the descriptor always passes` };
  if (rule.hasLimit) return { says: `the rule ${quoted(rule.path)} applies${named}` };
  if (rule.children === undefined) {
    return { says: `the rule ${quoted(rule.path)} has no limit and no rules below it: the descriptor always passes` };
  }
  const keys = keysOf(rule.children);
  return {
    says: `the rule ${quoted(rule.path)} has no limit of its own; rules below it need one more entry: ${listed(keys)}`,
  };
}

/** Why the limits of that name apply; empty if the rule always has them. */
function whyTier({ tiers }: Rule, descriptor: Descriptor): string {
  if (tiers === undefined) return "";
  const value = descriptor.value(tiers.entry);
  if (value === undefined) return `, because there is no entry ${quoted(tiers.entry)}`;
  const said = `${quoted(tiers.entry)} is ${quoted(value)}`;
  return tiers.byName.has(value) ? `, because ${said}` : `, because ${said}, and no limits have that name`;
}

function limitReport(limit: Limit, bucketKey: string, isReplaced: boolean): LimitReport {
  return {
    id: textOf(limit.names.id),
    name: textOf(limit.names.readableName),
    algorithm: ALGORITHM_NAMES[limit.algorithm],
    amount: limit.amount,
    burst: limit.burst,
    window_seconds: limit.windowSeconds,
    ...(limit.calendar === undefined ? {} : { calendar: limit.calendar.words }),
    on_store_failure: ON_STORE_FAILURE_NAMES[limit.policy.onStoreFailure],
    sync: SYNC_NAMES[limit.policy.sync],
    bucket: textOf(bucketKey),
    is_replaced: isReplaced,
    says: `${limitWords(limit)}${isReplaced ? " (replaced by another limit of this call)" : ""}`,
  };
}

function globalReportOf({ globalLimit }: DomainRules, walks: readonly Walk[]): LimitReport | undefined {
  const onlySettles = walks.length > 0 && walks.every(({ settles }) => settles);
  if (globalLimit === undefined || onlySettles) return undefined;
  const { key, countsHits } = globalLimit;
  const descriptors = walks.map(({ descriptor }) => descriptor);
  const limit = limitForCall(globalLimit.limit, { descriptors, descriptorCount: descriptors.length });
  return { ...limitReport(limit, key.bucketKey, false), says: limitWords(limit, countsHits ? "hit" : "call") };
}

// As in the limiter: names from all descriptors of the call, and a limit that is replaced still replaces.
function replacedBy({ rule }: Walk): readonly string[] {
  return rule === undefined
    ? []
    : [...rule.unlimitedReplaces, ...rule.limits.flatMap((limit) => limit.policy.replaces)];
}

function findKey(root: Level, key: string): Rule | undefined {
  const levels = [root];
  let searched = 0;
  for (let level = levels.shift(); level !== undefined; level = levels.shift()) {
    for (const rule of level.rules) {
      if (rule.key === key) return rule;
      if (++searched > SEARCHED_MAX) return undefined;
      if (rule.children !== undefined) levels.push(rule.children);
    }
  }
  return undefined;
}

function descriptorOf(domain: DomainRules, entries: readonly WrittenEntry[]): Descriptor {
  const descriptor = new Descriptor();
  for (const entry of entries) {
    const key = oneByteOf(entry.key);
    descriptor.addEntry(key, valueInRules(domain, key, oneByteValueOf(entry)));
  }
  return descriptor;
}

function didYouMean(word: string, words: readonly string[]): { readonly suggestion?: string } {
  const suggestion = suggestionFor(word, words);
  return suggestion === undefined ? {} : { suggestion };
}
