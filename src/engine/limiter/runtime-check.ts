// Checks what an operator wants to set for a caller against the rules in force, before it is kept.

import { RequestError } from "../base/errors.ts";
import { nearestName } from "../base/near-name.ts";
import { divideUp, isoTime, MICROS_PER_SECOND } from "../base/units.ts";
import { Algorithm, type Limit, LOG_PAYMENTS_MAX, UNIT_NAMES, UNIT_SECONDS, Unit } from "../domain/limit.ts";
import { Descriptor, oneByteOf, oneByteValueOf, textOf } from "../domain/request.ts";
import { valueInRules } from "../rules/address-groups.ts";
import { shownValue } from "../rules/bucket-key.ts";
import { explainRequest } from "../rules/explain.ts";
import { limitWords, listed, quoted } from "../rules/explain-words.ts";
import { findRule, hidesValues } from "../rules/match.ts";
import type { DomainRules, Rule, RuleSet } from "../rules/rule-set.ts";
import { rulesOfTiers } from "../rules/tiers.ts";
import {
  type AskedCaller,
  type AskedLimit,
  isInForce,
  type KeptLimit,
  keyText,
  RUNTIME_AMOUNTS_MAX,
  RUNTIME_KEY_BYTES_MAX,
  type RuntimeAmount,
  type RuntimeChange,
  type RuntimeKey,
  type RuntimeLimit,
  readKey,
  readValue,
} from "../runtime/runtime-limit.ts";
import type { RuntimeTable } from "../runtime/runtime-table.ts";
import { apply, isNamed, labelOf } from "./applied-limit.ts";

/** The rule that a caller's calls meet, and the key under which its limit at run time is kept. */
export interface FoundCaller {
  readonly key: RuntimeKey;
  /** Undefined if no rule with limits matches: what is kept for the caller does nothing. */
  readonly rule: Rule | undefined;
}

/** A change that the rules allow. `before` and `after` are the caller's limits in words. */
export interface PlannedLimit {
  readonly caller: FoundCaller;
  readonly limit: RuntimeLimit;
  /** What the table has of the caller. */
  readonly known: KeptLimit | undefined;
  readonly before: readonly string[];
  readonly after: readonly string[];
}

/** A value that is hidden already, as lists of these limits show it. */
const HIDDEN = /^%#[\w-]{43}$/;

/** Whether values of the key are hidden, so that a rule for exactly one of them can't be found by it. */
export function isHiddenKey({ entries }: RuntimeKey): boolean {
  return entries.some(([, value]) => HIDDEN.test(value));
}

/** Finds the caller. Throws RequestError if its entries are beyond the bounds of a key. */
export function findCaller(rules: RuleSet, asked: AskedCaller): FoundCaller {
  const domain = rules.domains.get(oneByteOf(asked.domain));
  const entries = asked.entries.map((entry) => {
    const key = oneByteOf(entry.key);
    const value = oneByteValueOf(entry);
    return [key, domain === undefined ? value : valueInRules(domain, key, value)] as const;
  });
  // Includes the tier, which is not part of the key, so that the words describe the limits of a call.
  const descriptor = descriptorOf({ domain: "", entries });
  const hides = domain !== undefined && hidesValues(domain, descriptor);
  const kept = entries
    .filter(([key]) => domain?.costEntries.has(key) !== true)
    .map(([key, value]) => [key, shownValue(value, hides && !HIDDEN.test(value))] as const);
  const key = { domain: oneByteOf(asked.domain), entries: kept };
  if (readKey(keyText(key)) === undefined) {
    const expected = `expected a domain and at least one entry other than those of costs, holds, priorities and tiers, ${RUNTIME_KEY_BYTES_MAX} bytes in all`;
    throw new RequestError("REQUEST_LIMIT", expected);
  }
  const rule = domain === undefined ? undefined : findRule(domain, descriptor, []);
  const hasLimits = rule !== undefined && rulesOfTiers(rule).some(({ limits }) => limits.length > 0);
  return { key, rule: hasLimits ? rule : undefined };
}

/**
 * What a change makes of what the table has, at `nowUs` of the store's clock. Throws RequestError, which says what would be right.
 * Does not check the end.
 */
export function planLimit(
  rules: RuleSet,
  table: RuntimeTable,
  asked: AskedLimit,
  who: string,
  nowUs: number,
): PlannedLimit {
  const { note, seenUs } = asked;
  const caller = findCaller(rules, asked.caller);
  const known = table.get(caller.key);
  const limit = known && readValue(known.value);
  const kept = limit !== undefined && isInForce(limit, nowUs) ? limit : undefined;
  const shownUs = kept === undefined ? 0 : known?.atUs;
  if (seenUs !== undefined && seenUs !== shownUs) throw changedSince(known);
  const before = kept === undefined || caller.rule === undefined ? undefined : wordsAfter(kept, caller.rule);
  if (asked.change.kind === "none") {
    if (kept === undefined) throw refused("a limit at run time of this descriptor, found none");
    return { caller, known, limit: { change: asked.change, untilUs: 0, note, who }, before: before ?? [], after: [] };
  }
  const change = joinAmounts(kept?.change, asked.change, caller.rule);
  const words = checkChange(rules, asked.caller, caller, change);
  const untilUs = endUs(asked.until, nowUs);
  return { caller, known, limit: { change, untilUs, note, who }, before: before ?? words.before, after: words.after };
}

/** When it ends, in microseconds; 0: never. */
function endUs(until: AskedLimit["until"], nowUs: number): number {
  if (until === undefined) return 0;
  const us = "seconds" in until ? nowUs + until.seconds * MICROS_PER_SECOND : Math.max(1, until.atUs);
  if (us <= Number.MAX_SAFE_INTEGER) return us;
  throw refused(`an end up to ${isoTime(Number.MAX_SAFE_INTEGER)}, or none`);
}

function changedSince(known: KeptLimit | undefined): RequestError {
  const when = known === undefined ? "" : ` at ${isoTime(known.atUs)}`;
  return refused(`the limit that was shown; it was changed${when}`);
}

/** What `change` would do: the limits before and after, in words. Throws RequestError, which says what would be right. */
function checkChange(rules: RuleSet, asked: AskedCaller, { key, rule }: FoundCaller, change: RuntimeChange) {
  if (rule === undefined) {
    const { says, descriptors } = explainRequest(rules, asked.domain, [asked.entries]);
    const [first] = descriptors;
    const why =
      first === undefined ? says : [first.says, first.suggestion].filter((text) => text !== undefined).join(". ");
    throw refused(`a descriptor that matches a rule with limits: ${why}`);
  }
  const shared = sharedRule(rules, key);
  if (shared !== undefined)
    throw refused(
      `a caller with a bucket of its own; all values of the rule ${quoted(shared.path)} share one (share_threshold)`,
    );
  if (change.kind === "amounts") checkAmounts(rule, change.amounts);
  if (change.kind === "use") checkUse(rule, change.name);
  const limit: RuntimeLimit = { change, untilUs: 0, note: "", who: "" };
  return { before: wordsOf(rule.limits), after: wordsAfter(limit, rule) };
}

/** The amounts of two changes. If both name a limit, the second counts; amounts left without a limit are dropped. */
function joinAmounts(kept: RuntimeChange | undefined, change: RuntimeChange, rule: Rule | undefined): RuntimeChange {
  if (change.kind !== "amounts" || rule === undefined) return change;
  const own = effective(rule, change.amounts);
  const second = change.amounts.find((amount) => !own.includes(amount));
  if (second !== undefined && namedLimits(rule, second.limit).length > 0)
    throw refused(`amounts of different limits, got two of ${second.limit === "" ? "one" : quoted(second.limit)}`);
  if (kept?.kind !== "amounts") return change;
  const all = effective(rule, [...kept.amounts, ...change.amounts]);
  const amounts = [...kept.amounts.filter((amount) => all.includes(amount)), ...change.amounts];
  if (amounts.length > RUNTIME_AMOUNTS_MAX)
    throw refused(`at most ${RUNTIME_AMOUNTS_MAX} limits of one caller, got ${amounts.length}`);
  return { kind: "amounts", amounts };
}

/** The amounts that are the last to name some limit. A limit may have several names. */
function effective(rule: Rule, amounts: readonly RuntimeAmount[]): readonly RuntimeAmount[] {
  const named = new Set<Limit>();
  return amounts.toReversed().filter(({ limit }) => {
    const { size } = named;
    for (const each of namedLimits(rule, limit)) named.add(each);
    return named.size > size;
  });
}

function namedLimits(rule: Rule, name: string): readonly Limit[] {
  return rulesOfTiers(rule).flatMap((each) => each.limits.filter((limit) => isNamed(limit, each, name)));
}

/** What a limit at run time does, in words. */
export function wordsAfter(limit: RuntimeLimit, rule: Rule): readonly string[] {
  const { change } = limit;
  switch (change.kind) {
    case "block":
      return [
        change.shadow ? "blocked on paper: calls pass, and are counted as refused" : "blocked: every call is refused",
      ];
    case "exempt":
      return [
        change.global ? "exempt from the rule's limits and from the global limit" : "exempt from the rule's limits",
      ];
    default:
      return wordsOf(apply(limit, rule).limits);
  }
}

function wordsOf(limits: readonly Limit[]): readonly string[] {
  return limits.length === 0
    ? ["unlimited"]
    : limits.map((limit) => [labelOf(limit), limitWords(limit)].filter((text) => text !== "").join(": "));
}

function checkAmounts(rule: Rule, amounts: readonly RuntimeAmount[]): void {
  for (const amount of amounts) {
    const found = namedLimits(rule, amount.limit);
    const [limit] = found;
    if (limit === undefined) throw unknownLimit(rule, amount.limit);
    for (const each of found) checkAmount(each, amount);
  }
}

function unknownLimit(rule: Rule, name: string): RequestError {
  const labels = [...new Set(rulesOfTiers(rule).flatMap(({ limits }) => limits.map(labelOf)))].filter(
    (label) => label !== "",
  );
  const near = nearestName(name, labels);
  const hint = near === undefined ? "" : `; did you mean '${textOf(near)}'?`;
  const has = `the rule ${quoted(rule.path)} has ${labels.length === 0 ? "one, without a name" : listed(labels)}`;
  return refused(
    name === "" ? `the name of a limit: ${has}` : `a limit of the rule, got ${quoted(name)}; ${has}${hint}`,
  );
}

function checkAmount(limit: Limit, { requests, unit, burst }: RuntimeAmount): void {
  const isBucket = limit.algorithm === Algorithm.tokenBucket && !limit.isConcurrent;
  if (limit.algorithm === Algorithm.slidingLog && requests > LOG_PAYMENTS_MAX)
    throw refused(`at most ${LOG_PAYMENTS_MAX} requests of a sliding_log, got ${requests}`);
  if (!isBucket && burst !== undefined) throw refused("no burst: the limit is not a token bucket");
  if (limit.isConcurrent && unit !== Unit.unknown) throw refused("no unit: the limit counts holds");
  if (!limit.isConcurrent && !isBucket && unit !== Unit.unknown && unit !== limit.shownUnit) {
    const has = limit.shownUnit === Unit.unknown ? "no unit" : `unit ${UNIT_NAMES[limit.shownUnit]}`;
    throw refused(`${has}, because the rule's window can't change, got ${UNIT_NAMES[unit]}`);
  }
  const seconds = unit === Unit.unknown ? limit.writtenSeconds : UNIT_SECONDS[unit];
  if (burst !== undefined && (requests === 0 || burst * seconds < requests))
    throw refused(
      `a burst of at least the ${divideUp(requests, seconds)} tokens of a second, and requests above 0, got ${burst} and ${requests}`,
    );
}

function checkUse(rule: Rule, name: string): void {
  const names = [...(rule.tiers?.byName.keys() ?? [])];
  if (names.includes(name)) return;
  const near = nearestName(name, names);
  const hint = near === undefined ? "" : `; did you mean '${textOf(near)}'?`;
  throw refused(
    names.length === 0
      ? `amounts: the rule ${quoted(rule.path)} has no 'tier' to use limits of`
      : `one of ${listed(names)}, the tiers of the rule ${quoted(rule.path)}, got ${quoted(name)}${hint}`,
  );
}

function sharedRule(rules: RuleSet, key: RuntimeKey): Rule | undefined {
  const matched: Rule[] = [];
  findRule(rules.domains.get(key.domain) as DomainRules, descriptorOf(key), matched);
  return matched.find(({ sharesThreshold }) => sharesThreshold);
}

function descriptorOf({ entries }: RuntimeKey): Descriptor {
  const descriptor = new Descriptor();
  for (const [key, value] of entries) descriptor.addEntry(key, value);
  return descriptor;
}

function refused(expected: string): RequestError {
  return new RequestError("REQUEST_LIMIT", `expected ${expected}`);
}
