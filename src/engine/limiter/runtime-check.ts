// Checks what an operator wants to set for a caller against the rules in force, before it is kept.

import { RequestError } from "../../base/errors.ts";
import { nearestName } from "../../base/near-name.ts";
import { divideUp, isoTime, MICROS_PER_SECOND } from "../../base/units.ts";
import { Algorithm, type Limit, LOG_PAYMENTS_MAX, UNIT_NAMES, UNIT_SECONDS, Unit } from "../domain/limit.ts";
import { base64Unless, Descriptor, oneByteOf, oneByteValueOf, textOf, type WrittenEntry } from "../domain/request.ts";
import { valueInRules } from "../rules/address-groups.ts";
import { shownValue } from "../rules/bucket-key.ts";
import { explainRequest } from "../rules/explain.ts";
import { limitWords, listed, quoted } from "../rules/limit-words.ts";
import { findRule, hidesValues } from "../rules/match.ts";
import type { DomainRules, Rule, RuleSet } from "../rules/rule-set.ts";
import { rulesOfTiers } from "../rules/tiers.ts";
import {
  type AskedCaller,
  type AskedLimit,
  isInForce,
  keyText,
  RUNTIME_AMOUNTS_MAX,
  RUNTIME_KEY_BYTES_MAX,
  type RuntimeAmount,
  type RuntimeChange,
  type RuntimeKey,
  type RuntimeLimit,
  readKey,
} from "../runtime/runtime-limit.ts";
import { HIDDEN, type RuntimeRow } from "../runtime/runtime-table.ts";
import { apply, isNamed, labelOf } from "./applied-limit.ts";
import type { AppliedLimit } from "./call.ts";
import type { RuntimeLimits } from "./runtime-limits.ts";

/** The rule that a caller's calls meet, and what is kept for the caller. */
interface FoundCaller {
  readonly key: string;
  readonly row: RuntimeRow | undefined;
  /** Undefined if no rule with limits matches: what is kept for the caller does nothing. */
  readonly rule: Rule | undefined;
}

/** A change that the rules allow. `before` and `after` are the caller's limits in words. */
export interface PlannedLimit {
  readonly key: string;
  readonly limit: RuntimeLimit;
  /** What is there now. */
  readonly row: RuntimeRow | undefined;
  readonly before: readonly string[];
  readonly after: readonly string[];
}

/** Somebody else changed the limit after the operator saw it. */
export class RuntimeConflict extends RequestError {}

/** Finds the caller. Throws RequestError if its entries are beyond the bounds of a key. */
export function findCaller(rules: RuleSet, limits: RuntimeLimits, asked: AskedCaller): FoundCaller {
  const name = oneByteOf(asked.domain);
  const domain = rules.domains.get(name);
  const entries = entriesOf(asked, domain);
  // Includes the tier, which is not part of the key, so that the words describe the limits of a call.
  const descriptor = descriptorOf(entries);
  const row = domain === undefined ? undefined : limits.row(domain, descriptor);
  const hides = domain !== undefined && hidesValues(domain, descriptor);
  const shown = entries.filter(([key]) => domain?.costEntries.has(key) !== true).map((entry) => hidden(entry, hides));
  const key = row?.key ?? keyText({ domain: name, entries: shown });
  if (readKey(key) === undefined) {
    const expected = `expected a domain and at least one entry other than those of costs, holds, priorities and tiers, ${RUNTIME_KEY_BYTES_MAX} bytes in all`;
    throw new RequestError("REQUEST_LIMIT", expected);
  }
  const rule = domain === undefined ? undefined : findRule(domain, descriptor, []);
  const hasLimits = rule !== undefined && rulesOfTiers(rule).some((each) => each.limits.length > 0);
  return { key, row, rule: hasLimits ? rule : undefined };
}

/** What is kept for the caller under a key that no call finds any more, because the rules changed. */
function strayRow({ table }: RuntimeLimits, asked: AskedCaller): RuntimeRow | undefined {
  const [domain, entries] = [oneByteOf(asked.domain), entriesOf(asked, undefined)];
  for (const hides of [false, true]) {
    const row = table.get(keyText({ domain, entries: entries.map((entry) => hidden(entry, hides)) }));
    if (row !== undefined) return row;
  }
  return undefined;
}

/** The entries as rules read them; as they are without rules. */
function entriesOf({ entries }: AskedCaller, domain: DomainRules | undefined): RuntimeKey["entries"] {
  return entries.map((entry) => {
    const [key, value] = [oneByteOf(entry.key), oneByteValueOf(entry)];
    return [key, domain === undefined ? value : valueInRules(domain, key, value)];
  });
}

/** The entry with its value hidden, unless it is already, as lists of these limits show it. */
function hidden([key, value]: RuntimeKey["entries"][number], hides: boolean): RuntimeKey["entries"][number] {
  return [key, shownValue(value, hides && !HIDDEN.test(value))];
}

/** Under which rule a limit at run time applies, or why it does nothing, or why that is not known. */
export function effectOf(
  rules: RuleSet,
  limits: RuntimeLimits,
  { parts, limit }: RuntimeRow,
): { readonly rule: Rule } | { readonly doesNothing: boolean; readonly says: string } {
  const idle = (why: string) => ({ doesNothing: true, says: `${why}, so it does nothing` });
  const key = limit === undefined ? undefined : readKey(JSON.stringify(parts));
  if (limit === undefined || key === undefined) return idle("it can't be read");
  const domain = rules.domains.get(key.domain);
  const carrier = key.entries.find(([name]) => domain?.costEntries.has(name) === true);
  if (carrier !== undefined)
    return idle(
      `${quoted(carrier[0])} now carries a cost, a hold, a priority or a tier, and matching skips such entries`,
    );
  const asked = { domain: textOf(key.domain), entries: key.entries.map(([name, value]) => writtenEntry(name, value)) };
  const { row, rule } = findCaller(rules, limits, asked);
  const isHidden = key.entries.some(([, value]) => HIDDEN.test(value));
  if (rule === undefined && isHidden)
    return {
      doesNothing: false,
      says: "its value is hidden, so it is not known whether a rule for exactly this value matches",
    };
  if (rule === undefined) return idle("no rule with limits matches");
  if (row?.parts !== parts) return idle("the rules now read its values differently");
  const { change } = limit;
  if (change.kind === "use" && rule.tiers?.byName.has(change.name) !== true)
    return idle(`the rule ${quoted(rule.path)} has no tier ${quoted(change.name)} any more`);
  if (change.kind === "amounts" && change.amounts.every((amount) => namedLimits(rule, amount.limit).length === 0))
    return idle(`the rule ${quoted(rule.path)} has no limit ${quoted(change.amounts[0]?.limit ?? "")} any more`);
  return { rule };
}

/** The entry in ordinary text. */
export function writtenEntry(key: string, value: string): WrittenEntry {
  const valueBase64 = base64Unless(value);
  const entry = { key: textOf(key), value: textOf(value) };
  return valueBase64 === undefined ? entry : { ...entry, valueBase64 };
}

/**
 * The limit that a change turns the kept one into, at `nowUs` of the store's clock. Throws RequestError, which says
 * what it expected. Does not check the end.
 */
export function planLimit(
  rules: RuleSet,
  limits: RuntimeLimits,
  { caller: asked, change: wanted, until, note, seenUs }: AskedLimit,
  who: string,
  nowUs: number,
): PlannedLimit {
  const caller = findCaller(rules, limits, asked);
  const row = caller.row ?? (wanted.kind === "none" ? strayRow(limits, asked) : undefined);
  const isKept = row !== undefined && (row.limit === undefined || isInForce(row.limit, nowUs));
  const kept = isKept ? row.limit : undefined;
  if (seenUs !== undefined && seenUs !== (isKept ? row.atUs : 0)) {
    const when = row === undefined ? "" : ` at ${isoTime(row.atUs)}`;
    throw new RuntimeConflict("REQUEST_LIMIT", `expected the limit that was shown; it was changed${when}`);
  }
  const { rule } = caller;
  const before = kept === undefined || rule === undefined ? undefined : wordsAfter(kept, rule);
  const plan = { key: row?.key ?? caller.key, row };
  if (wanted.kind === "none") {
    if (!isKept) throw refused("a limit at run time of this descriptor, found none");
    return { ...plan, limit: { change: wanted, untilUs: 0, note, who }, before: before ?? [], after: [] };
  }
  const change = joinAmounts(kept?.change, wanted, rule);
  const words = checkChange(rules, asked, rule, change);
  const limit = { change, untilUs: endUs(until, nowUs), note, who };
  return { ...plan, limit, before: before ?? words.before, after: words.after };
}

/** When it ends, in microseconds; 0: never. */
function endUs(until: AskedLimit["until"], nowUs: number): number {
  if (until === undefined) return 0;
  const us = "seconds" in until ? nowUs + until.seconds * MICROS_PER_SECOND : Math.max(1, until.atUs);
  if (us <= Number.MAX_SAFE_INTEGER) return us;
  throw refused(`an end up to ${isoTime(Number.MAX_SAFE_INTEGER)}, or none`);
}

/**
 * What `change` would do: the limits before and after, in words. Throws RequestError, which says what would be right.
 */
function checkChange(rules: RuleSet, asked: AskedCaller, rule: Rule | undefined, change: RuntimeChange) {
  if (rule === undefined) {
    const { says, descriptors } = explainRequest(rules, asked.domain, [asked.entries]);
    const [first] = descriptors;
    const why =
      first === undefined ? says : [first.says, first.suggestion].filter((text) => text !== undefined).join(". ");
    throw refused(`a descriptor that matches a rule with limits: ${why}`);
  }
  const shared = sharedRule(rules, asked);
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
  return wordsOfApplied(apply(limit, rule));
}

export function wordsOfApplied({ kind, isShadow, liftsGlobal, limits }: AppliedLimit): readonly string[] {
  if (kind === "block")
    return [isShadow ? "blocked on paper: calls pass, and are counted as refused" : "blocked: every call is refused"];
  if (kind === "exempt")
    return [liftsGlobal ? "exempt from the rule's limits and from the global limit" : "exempt from the rule's limits"];
  return wordsOf(limits);
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
  const has = `the rule ${quoted(rule.path)} has ${labels.length === 0 ? "one, without a name" : listed(labels)}`;
  return refused(
    name === ""
      ? `the name of a limit: ${has}`
      : `a limit of the rule, got ${quoted(name)}; ${has}${didYouMean(name, labels)}`,
  );
}

function checkAmount(limit: Limit, { requests, unit, burst }: RuntimeAmount): void {
  const isBucket = limit.algorithm === Algorithm.tokenBucket && !limit.isConcurrent;
  if (limit.priority?.guarantee !== undefined)
    throw refused("a limit without 'guarantee': one caller's amounts would change what is kept for all");
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
  throw refused(
    names.length === 0
      ? `amounts: the rule ${quoted(rule.path)} has no 'tier' to use limits of`
      : `one of ${listed(names)}, the tiers of the rule ${quoted(rule.path)}, got ${quoted(name)}${didYouMean(name, names)}`,
  );
}

function didYouMean(name: string, names: readonly string[]): string {
  const near = nearestName(name, names);
  return near === undefined ? "" : `; did you mean '${textOf(near)}'?`;
}

function sharedRule(rules: RuleSet, asked: AskedCaller): Rule | undefined {
  const domain = rules.domains.get(oneByteOf(asked.domain));
  const matched: Rule[] = [];
  if (domain !== undefined) findRule(domain, descriptorOf(entriesOf(asked, domain)), matched);
  return matched.find(({ sharesThreshold }) => sharesThreshold);
}

function descriptorOf(entries: RuntimeKey["entries"]): Descriptor {
  const descriptor = new Descriptor();
  for (const [key, value] of entries) descriptor.addEntry(key, value);
  return descriptor;
}

function refused(expected: string): RequestError {
  return new RequestError("REQUEST_LIMIT", `expected ${expected}`);
}
