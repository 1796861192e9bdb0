// Tells for a descriptor which rule applies and why: the walk of match.ts in words, with the limits and the buckets that
// it leads to. Asks match.ts itself at every level, so the two can't disagree (test/unit/rules/explain.test.ts).

import { ALGORITHM_NAMES, type Limit, ON_STORE_FAILURE_NAMES, SYNC_NAMES } from "../core/limit.ts";
import { nearestName } from "../core/near-name.ts";
import { Descriptor, oneByteOf, textOf } from "../core/request.ts";
import { Kind } from "../core/take.ts";
import { entryKeyPart, sharedEntryKeyPart } from "./bucket-key.ts";
import { costOf } from "./cost.ts";
import { counterKey } from "./counter-key.ts";
import { limitWords, listed, quoted, whyAccepted, whyPassedOver } from "./explain-words.ts";
import { accepts, findChild } from "./match.ts";
import type { DomainRules, GlobalLimit, KeyRules, Level, Rule, RuleSet } from "./rule-set.ts";

/** An entry as people write it. */
export interface AskedEntry {
  readonly key: string;
  readonly value: string;
}

/** What was found for one rule of a level. */
export interface TriedRule {
  /** `key`, `key=value`, `key=prefix:...`. */
  readonly rule: string;
  /** `file:line:column`. */
  readonly where: string;
  readonly outcome: "matched" | "passed over" | "not tried";
  readonly why: string;
}

/** What became of one entry. */
export interface EntryReport {
  readonly key: string;
  readonly value: string;
  readonly outcome: "matched" | "no match" | "cost" | "not reached";
  /** Rules of the level, in the order in which they are tried; at most TRIED_MAX of them. */
  readonly tried: readonly TriedRule[];
  /** Rules that `tried` leaves out. */
  readonly leftOut: number;
  readonly says: string;
}

/** A limit that the descriptor pays. */
export interface LimitReport {
  readonly id: string;
  readonly name: string;
  readonly algorithm: string;
  readonly amount: number;
  readonly burst: number;
  readonly windowSeconds: number;
  readonly onStoreFailure: string;
  readonly sync: string;
  /** Name of the bucket in the store. */
  readonly bucketKey: string;
  /** True if another limit of the same call replaces it, so that it is not paid. */
  readonly isReplaced: boolean;
  readonly says: string;
}

/** What is found for one descriptor. */
export interface DescriptorReport {
  readonly outcome: "limited" | "unlimited" | "no limit";
  readonly says: string;
  /** What the author of the rules or of the request may have meant; absent if nothing comes near. */
  readonly suggestion?: string;
  readonly entries: readonly EntryReport[];
  readonly rule?: {
    readonly path: string;
    readonly where: string;
    readonly kind: "ordinary" | "quota" | "shadow";
    readonly postPaid: boolean;
  };
  /** What one hit costs here. */
  readonly cost: number;
  readonly limits: readonly LimitReport[];
}

/** What is found for a call. */
export interface ExplainReport {
  readonly domain: string;
  /** Version and hash of the rule set asked. */
  readonly version: number;
  readonly hash: string;
  readonly says: string;
  readonly suggestion?: string;
  readonly descriptors: readonly DescriptorReport[];
  readonly globalLimit?: LimitReport;
}

/** Most rules named per entry. */
export const TRIED_MAX = 30;
/** Most exact values named before the other rules of a level. */
const EXACT_MAX = 10;
/** Most names compared with a misspelt one. Bounds the time that one question may take, however many rules there are. */
const COMPARED_MAX = 200;
/** Rules looked through for a key that stands at another level. */
const SEARCHED_MAX = 10_000;

/** Explains a whole call: each descriptor, and the domain's global limit. */
export function explainRequest(
  rules: RuleSet,
  domain: string,
  descriptors: readonly (readonly AskedEntry[])[],
): ExplainReport {
  const { version, hash } = rules;
  const domainRules = rules.domains.get(oneByteOf(domain));
  if (domainRules === undefined) {
    const names = [...rules.domains.keys()];
    const says =
      names.length === 0
        ? "there are no rules at all, so every call passes"
        : `no rules are for domain ${quoted(oneByteOf(domain))}, so every call passes; domains: ${listed(names)}`;
    return { domain, version, hash, says, ...didYouMean(nearestName(domain, names.map(textOf))), descriptors: [] };
  }
  const replaced = new Set(descriptors.flatMap((entries) => replacedBy(domainRules, entries)));
  const reports = descriptors.map((entries) => explainDescriptor(domainRules, entries, replaced));
  const limited = reports.filter((report) => report.limits.length > 0).length;
  const { globalLimit } = domainRules;
  const found =
    reports.length === 1
      ? `the descriptor has ${limited === 0 ? "no limit" : "a limit"}`
      : `${limited} of ${reports.length} descriptors have a limit`;
  const says = globalLimit === undefined ? found : `${found}; every call also pays the domain's global limit`;
  return {
    domain,
    version,
    hash,
    says,
    descriptors: reports,
    ...(globalLimit === undefined ? {} : { globalLimit: globalReport(globalLimit) }),
  };
}

/** Explains one descriptor. `replaced`: names of limits that others in the call replace. */
export function explainDescriptor(
  domain: DomainRules,
  entries: readonly AskedEntry[],
  replaced: ReadonlySet<string> = new Set(),
): DescriptorReport {
  const walk = walkEntries(domain, entries);
  const { rule } = walk;
  const cost = costOf(1, rule?.cost, descriptorOf(entries));
  if (rule === undefined) return { outcome: "no limit", ...walk.end, entries: walk.entries, cost, limits: [] };
  const base = walk.keyParts(rule.hashesValues);
  const isReplaced = (limit: Limit) => limit.name !== "" && replaced.has(limit.name);
  const keyOf = (limit: Limit) =>
    limit.isCounter
      ? `${counterKey(domain.counterPrefix ?? "", domain, descriptorOf(entries), walk.matched)}<start of the window>`
      : base + limit.keySuffix;
  const limits = rule.limits.map((limit) => limitReport(limit, keyOf(limit), isReplaced(limit)));
  const kind = rule.kind === Kind.shadow ? "shadow" : rule.isQuota ? "quota" : "ordinary";
  return {
    outcome: rule.isUnlimited ? "unlimited" : "limited",
    ...walk.end,
    entries: walk.entries,
    rule: { path: textOf(rule.path), where: rule.where, kind, postPaid: rule.isPostPaid },
    cost,
    limits,
  };
}

interface Ending {
  readonly says: string;
  readonly suggestion?: string;
}

interface Walk {
  readonly entries: readonly EntryReport[];
  /** The rule whose limits apply. */
  readonly rule: Rule | undefined;
  readonly end: Ending;
  /** Bucket key of the entries, without a limit's suffix. */
  readonly keyParts: (hashesValues: boolean) => string;
  /** The rule of each entry that was matched. */
  readonly matched: readonly Rule[];
}

function walkEntries(domain: DomainRules, asked: readonly AskedEntry[]): Walk {
  const entries: EntryReport[] = [];
  const matched: { readonly rule: Rule; readonly key: string; readonly value: string }[] = [];
  let level: Level | undefined = domain.root;
  let end: Ending | undefined;
  for (const entry of asked) {
    const key = oneByteOf(entry.key);
    const value = oneByteOf(entry.value);
    if (domain.costEntries.has(key)) {
      entries.push({
        ...entry,
        outcome: "cost",
        tried: [],
        leftOut: 0,
        says: "a cost entry of this domain: skipped in matching",
      });
    } else if (end !== undefined) {
      entries.push({ ...entry, outcome: "not reached", tried: [], leftOut: 0, says: "not reached" });
    } else if (level === undefined) {
      end = pathEnded(matched.at(-1)?.rule);
      entries.push({ ...entry, outcome: "no match", tried: [], leftOut: 0, says: "no rules are left to try" });
    } else {
      const rule = findChild(level, key, value);
      entries.push(entryReport(entry, level, rule));
      if (rule === undefined) end = noMatch(domain, level, key, value);
      else {
        matched.push({ rule, key, value });
        level = rule.children;
      }
    }
  }
  const last = end === undefined ? matched.at(-1)?.rule : undefined;
  const keyParts = (hashesValues: boolean) =>
    matched.reduce(
      (text, { rule, key, value }) =>
        text +
        (rule.sharesThreshold ? sharedEntryKeyPart(key, rule.patternText) : entryKeyPart(key, value, hashesValues)),
      domain.keyPrefix,
    );
  return {
    entries,
    rule: last?.hasLimit ? last : undefined,
    end: end ?? reached(last),
    keyParts,
    matched: matched.map(({ rule }) => rule),
  };
}

function entryReport(entry: AskedEntry, level: Level, matched: Rule | undefined): EntryReport {
  const { tried, leftOut } = triedRules(level, oneByteOf(entry.key), oneByteOf(entry.value), matched);
  const says = matched === undefined ? "no rule accepts this entry" : `matched by ${quoted(matched.pathElement)}`;
  return { ...entry, outcome: matched === undefined ? "no match" : "matched", tried, leftOut, says };
}

/** The rules of a level in the order in which they count for the entry: exact values, patterns, the bare key. */
function triedRules(level: Level, key: string, value: string, matched: Rule | undefined) {
  const keyRules = level.byKey.get(key);
  const patterns = level.starKeyPatterns.length > 0 ? level.starKeyPatterns : (keyRules?.patterns ?? []);
  const isPattern = new Set(patterns);
  const isExact = matched !== undefined && keyRules?.exact.get(value) === matched;
  const any = keyRules?.any === undefined ? [] : [keyRules.any];
  // The one exact value that fits stands before those that don't; of a thousand others a few will do.
  const exact = isExact && !isPattern.has(matched) ? [matched] : [];
  for (const rule of keyRules?.exact.values() ?? []) {
    if (exact.length >= EXACT_MAX) break;
    if (rule !== matched && !isPattern.has(rule)) exact.push(rule);
  }
  const shown = [...exact, ...patterns, ...any].slice(0, TRIED_MAX);
  if (matched !== undefined && !shown.includes(matched)) shown.splice(TRIED_MAX - 1, 1, matched);
  // Wildcards stand among the exact values too, under their own text.
  const wildcards = keyRules?.patterns.filter((rule) => rule.pattern.kind === "wildcard").length ?? 0;
  const all = (keyRules?.exact.size ?? 0) - wildcards + patterns.length + any.length;
  const tried: TriedRule[] = [];
  let isDecided = isExact;
  for (const rule of shown) {
    const at = { rule: textOf(rule.pathElement), where: rule.where };
    if (rule === matched) {
      tried.push({ ...at, outcome: "matched", why: whyAccepted(rule, key, value) });
      isDecided = true;
    } else if (!isDecided || rule.pattern.kind === "exact") {
      tried.push({ ...at, outcome: "passed over", why: whyPassedOver(rule, key, value) });
    } else {
      tried.push({ ...at, outcome: "not tried", why: whyNotTried(rule, matched, isExact, accepts(rule, key, value)) });
    }
  }
  return { tried, leftOut: all - tried.length };
}

function whyNotTried(rule: Rule, matched: Rule | undefined, isExact: boolean, wouldFit: boolean): string {
  const by = quoted(matched?.pathElement ?? "");
  const what = rule.pattern.kind === "any" ? "the rule for any value was" : "this pattern was";
  const because = isExact
    ? `${by} matched exactly, so ${what} not tried`
    : `${by} matched before, so ${what} not tried`;
  return wouldFit && rule.pattern.kind !== "any" ? `${because}, although it would fit` : because;
}

function pathEnded(rule: Rule | undefined): Ending {
  if (rule === undefined) return { says: "the domain has no rules for descriptors" };
  const inner = rule.hasLimit ? "; its own limit is not applied, because more entries follow" : "";
  return { says: `the path of rules ends at ${quoted(rule.path)}, which has no rules below it${inner}` };
}

function noMatch(domain: DomainRules, level: Level, key: string, value: string): Ending {
  const ofKey = level.byKey.get(key);
  if (ofKey !== undefined) {
    const values = firstOf(patternTexts(ofKey), COMPARED_MAX);
    const more = ofKey.exact.size + ofKey.patterns.length > values.length ? " among others" : "";
    return {
      says: `no rule for key ${quoted(key)} accepts value ${quoted(value)}; values here: ${listed(values)}${more}`,
      ...didYouMean(nearestName(textOf(value), values.map(textOf))),
    };
  }
  const keys = keysOf(level);
  if (keys.length === 0) return { says: "the domain has no rules for descriptors" };
  const says = `no rule has key ${quoted(key)} at this level; keys here: ${listed(keys)}`;
  const near = nearestName(textOf(key), keys.map(textOf));
  if (near !== undefined) return { says, ...didYouMean(near) };
  const elsewhere = findKey(domain.root, key);
  if (elsewhere === undefined) return { says };
  return {
    says,
    suggestion: `Entries count in their order; a rule with key ${quoted(key)} stands at ${quoted(elsewhere.path)}.`,
  };
}

/** The first keys of a level, those with stars last. */
function keysOf(level: Level): readonly string[] {
  const starKeys = level.starKeyPatterns
    .filter((rule) => rule.pattern.kind === "compositeWildcard")
    .map((rule) => rule.key);
  return [...new Set([...firstOf(level.byKey.keys(), COMPARED_MAX), ...starKeys.slice(0, COMPARED_MAX)])];
}

/** What the rules of a key accept, as written. */
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

function reached(rule: Rule | undefined): Ending {
  if (rule === undefined) return { says: "the descriptor has no entries to match, so it has no limit" };
  if (rule.isUnlimited) return { says: `the rule ${quoted(rule.path)} is unlimited: the descriptor always passes` };
  if (rule.hasLimit) return { says: `the rule ${quoted(rule.path)} applies` };
  if (rule.children === undefined) {
    return { says: `the rule ${quoted(rule.path)} has no limit and no rules below it: the descriptor always passes` };
  }
  const keys = keysOf(rule.children);
  return {
    says: `the rule ${quoted(rule.path)} has no limit of its own; rules below it want one more entry: ${listed(keys)}`,
  };
}

function limitReport(limit: Limit, bucketKey: string, isReplaced: boolean): LimitReport {
  return {
    id: textOf(limit.id),
    name: limit.name,
    algorithm: ALGORITHM_NAMES[limit.algorithm],
    amount: limit.amount,
    burst: limit.burst,
    windowSeconds: limit.windowSeconds,
    onStoreFailure: ON_STORE_FAILURE_NAMES[limit.onStoreFailure],
    sync: SYNC_NAMES[limit.sync],
    bucketKey: textOf(bucketKey),
    isReplaced,
    says: `${limitWords(limit)}${isReplaced ? " (replaced by another limit of this call)" : ""}`,
  };
}

function globalReport({ limit, bucketKey, countsHits }: GlobalLimit): LimitReport {
  return { ...limitReport(limit, bucketKey, false), says: limitWords(limit, countsHits ? "hit" : "call") };
}

// As the limiter gathers them: by name, over all descriptors of the call, in one pass.
function replacedBy(domain: DomainRules, entries: readonly AskedEntry[]): readonly string[] {
  const { rule } = walkEntries(domain, entries);
  return rule === undefined ? [] : [...rule.unlimitedReplaces, ...rule.limits.flatMap((limit) => limit.replaces)];
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

function descriptorOf(entries: readonly AskedEntry[]): Descriptor {
  const descriptor = new Descriptor();
  for (const entry of entries) descriptor.addEntry(oneByteOf(entry.key), oneByteOf(entry.value));
  return descriptor;
}

function didYouMean(near: string | undefined): { readonly suggestion?: string } {
  return near === undefined || near === "" ? {} : { suggestion: `Did you mean '${near}'?` };
}
