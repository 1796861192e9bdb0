// Reads all limits of a rule, which it writes itself or uses by name.

import { type AddedKeys, defaultPostPaid, withAddedKeys } from "./added-keys.ts";
import type { LimitDraft, LimitsDraft } from "./draft.ts";
import { type Fields, readFields } from "./fields.ts";
import type { NamedLimits, ReadLimits, WrittenLimits } from "./named-limits.ts";
import type { ProblemLog } from "./problems.ts";
import { readLimit, readReplaces, readUnlimited } from "./read-limit.ts";
import { readMappings, readSection, readSwitch, readText } from "./readers.ts";
import { LIMITS_PER_RULE_MAX } from "./schema.ts";

/** The sections that the rule itself has under `rate_limit` and `rate_limits`. */
export function readWritten(fields: Fields, log: ProblemLog): WrittenLimits {
  const one = readSection(fields.get("rate_limit"), log);
  const listField = fields.given("rate_limits");
  const sections = one === undefined ? readMappings(listField, log).map((mapping) => [mapping]) : [one];
  const isList = one === undefined && listField !== undefined;
  if (one !== undefined && listField !== undefined) {
    log.error(listField.keyAt, "'rate_limits' can't stand beside 'rate_limit'", "Move the one limit into the list.");
  }
  if (isList && listField.value.kind === "sequence" && listField.value.items.length === 0) {
    log.error(listField.value.at, "rate_limits: the list is empty", "Leave it out if the rule has no limit.");
  }
  return { at: listField?.value.at ?? fields.at, title: "rate_limits", sections, isList };
}

/** Reads named limits for the rule with these fields. Rules whose relevant settings are equal share one result. */
export function readNamed(
  fields: Fields,
  named: NamedLimits,
  added: AddedKeys,
  isOfTier: boolean,
  log: ProblemLog,
): ReadLimits {
  const own = fields.given("post_paid") === undefined ? "" : String(readSwitch(fields, "post_paid", log));
  const beside = ["hold", "on_store_failure"].filter((name) => fields.given(name) !== undefined);
  const key = [own, isOfTier, ...beside].join();
  let read = named.read.get(key);
  if (read === undefined) {
    read = readLimits(fields, named, added, isOfTier, log);
    named.read.set(key, read);
  }
  return read;
}

/** Reads limits for the rule with these fields. `isOfTier`: an entry chooses them. */
export function readLimits(
  fields: Fields,
  { at, title, sections, isList }: WrittenLimits,
  added: AddedKeys,
  isOfTier: boolean,
  log: ProblemLog,
): ReadLimits {
  if (sections.length > LIMITS_PER_RULE_MAX)
    log.error(at, `${title}: expected at most ${LIMITS_PER_RULE_MAX} limits, got ${sections.length}`);
  const own = fields.given("post_paid") === undefined ? undefined : readSwitch(fields, "post_paid", log);
  const byDefault = defaultPostPaid(added.defaults, sections, added.limit);
  const beside = {
    takesNoSync: (own ?? byDefault) === true || fields.given("hold") !== undefined,
    takesOnlyLease: isOfTier,
    hasFailurePolicy: fields.given("on_store_failure") !== undefined,
  };
  const limits: LimitDraft[] = [];
  let unlimited: Fields | undefined;
  for (const section of sections) {
    const limitFields = readFields("limit", withAddedKeys(section, added, beside), log);
    if (readSwitch(limitFields, "unlimited", log)) unlimited = limitFields;
    else {
      const limit = readLimit(limitFields, log);
      if (limit !== undefined) limits.push(limit);
    }
  }
  if (unlimited !== undefined) {
    if (sections.length > 1) log.error(unlimited.at, "an unlimited rule takes no other limits");
    return { limits: unlimitedDraft(unlimited, isList, log), postPaid: own };
  }
  const draft = { unlimitedName: "", unlimitedReplaces: [], unlimitedRequests: 0, limits, isList };
  const postPaid = own ?? (limits.length === 0 ? undefined : byDefault);
  return { limits: { ...draft, hasLimit: sections.length > 0, isUnlimited: false }, postPaid };
}

function unlimitedDraft(fields: Fields, isList: boolean, log: ProblemLog): LimitsDraft {
  const unlimitedRequests = readUnlimited(fields, log);
  const unlimitedName = readText(fields, "name", log) ?? "";
  const unlimitedReplaces = readReplaces(fields, unlimitedName, log);
  const draft = { unlimitedName, unlimitedReplaces, unlimitedRequests, limits: [], isList };
  return { ...draft, hasLimit: true, isUnlimited: true };
}
