// Reads all limits of a rule, which it writes itself or uses by a name of the file's `limits`.

import { oneByteOf, textOf } from "../domain/request.ts";
import { defaultPostPaid, withDefaults } from "./defaults.ts";
import type { LimitDraft, LimitsDraft } from "./draft.ts";
import {
  type Fields,
  fieldsOfFiles,
  isNull,
  keyText,
  readFields,
  readMappings,
  readSection,
  readSwitch,
  readText,
} from "./fields.ts";
import { describeSource, formatPlace, type ProblemLog } from "./problems.ts";
import { readLimit, readReplaces, readUnlimited } from "./read-limit.ts";
import { LIMIT_NAMES_MAX, LIMITS_PER_RULE_MAX } from "./schema.ts";
import type { MappingEntry, MappingNode, Place, SourceFile, SourceNode } from "./source.ts";

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
  defaults: MappingNode | undefined,
  isOfTier: boolean,
  log: ProblemLog,
): ReadLimits {
  const own = fields.given("post_paid") === undefined ? "" : String(readSwitch(fields, "post_paid", log));
  const beside = ["hold", "on_store_failure"].filter((name) => fields.given(name) !== undefined);
  const key = [own, isOfTier, ...beside].join();
  let read = named.read.get(key);
  if (read === undefined) {
    read = readLimits(fields, named, defaults, isOfTier, log);
    named.read.set(key, read);
  }
  return read;
}

/** Reads limits for the rule with these fields. `isOfTier`: an entry chooses them. */
export function readLimits(
  fields: Fields,
  { at, title, sections, isList }: WrittenLimits,
  defaults: MappingNode | undefined,
  isOfTier: boolean,
  log: ProblemLog,
): ReadLimits {
  if (sections.length > LIMITS_PER_RULE_MAX)
    log.error(at, `${title}: expected at most ${LIMITS_PER_RULE_MAX} limits, got ${sections.length}`);
  const own = fields.given("post_paid") === undefined ? undefined : readSwitch(fields, "post_paid", log);
  const byDefault = defaultPostPaid(defaults, sections);
  const beside = {
    takesNoSync: (own ?? byDefault) === true || fields.given("hold") !== undefined,
    takesOnlyLease: isOfTier,
    hasFailurePolicy: fields.given("on_store_failure") !== undefined,
  };
  const limits: LimitDraft[] = [];
  let unlimited: Fields | undefined;
  for (const section of sections) {
    const limitFields = readFields("limit", withDefaults(section, defaults, beside), log);
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

/** Limits as a rule or a file writes them. */
interface WrittenLimits {
  readonly at: Place;
  /** Their name in messages. */
  readonly title: string;
  /** The mappings of each limit; later ones override earlier ones. */
  readonly sections: readonly (readonly MappingNode[])[];
  /** True for a list, in which each limit needs a label. */
  readonly isList: boolean;
}

/** Limits after reading, and `post_paid` of the rule or its domain's defaults; undefined if neither has it. */
export interface ReadLimits {
  readonly limits: LimitsDraft;
  readonly postPaid: boolean | undefined;
}

/** Limits with a name. */
export interface NamedLimits extends WrittenLimits {
  /** One-byte. */
  readonly name: string;
  /** Set to true by the first rule that uses them. */
  isUsed: boolean;
  /** Results of reading by the rule's settings that matter (readNamed), because thousands of rules may use the same limits. */
  readonly read: Map<string, ReadLimits>;
}

/** The named limits of one domain, in the order of its files. */
export type LimitsByName = ReadonlyMap<string, NamedLimits>;

/** The named limits of all files, by domain. A repeated name in a domain is an error. */
export function gatherNamedLimits(files: readonly SourceFile[], log: ProblemLog): ReadonlyMap<string, LimitsByName> {
  const found = new Map<string, Map<string, NamedLimits>>();
  for (const { domain, field } of fieldsOfFiles(files, "limits", log)) {
    if (field.value.kind !== "mapping") {
      const text = `limits: expected a mapping of names to limits, got ${describeSource(field.value)}`;
      log.error(field.value.at, text, "Limits of one rule stand under its 'rate_limits'.");
      continue;
    }
    const ofDomain = found.get(domain) ?? new Map<string, NamedLimits>();
    found.set(domain, ofDomain);
    for (const entry of field.value.entries) add(ofDomain, entry, log);
    if (ofDomain.size > LIMIT_NAMES_MAX)
      log.error(field.keyAt, `limits: expected at most ${LIMIT_NAMES_MAX} names in a domain, got ${ofDomain.size}`);
  }
  return found;
}

function add(found: Map<string, NamedLimits>, { key, value, isMerged }: MappingEntry, log: ProblemLog): void {
  const text = keyText(key, log);
  if (text === undefined) return;
  const name = key.value.type === "binary" ? text : oneByteOf(text);
  const first = found.get(name);
  if (name === "") log.error(key.at, "limits: a name is empty");
  if (first !== undefined && !isMerged) {
    log.error(key.at, `limits: '${textOf(name)}' stands at ${formatPlace(first.at)} already`);
    return;
  }
  const title = `limits: '${textOf(name)}'`;
  const isList = value.kind === "sequence";
  found.set(name, {
    name,
    at: key.at,
    title,
    sections: sectionsOf(title, value, log),
    isList,
    isUsed: false,
    read: new Map(),
  });
}

function sectionsOf(title: string, value: SourceNode, log: ProblemLog): MappingNode[][] {
  if (value.kind === "mapping") return [[value]];
  const items = value.kind === "sequence" ? value.items : [];
  if (items.length === 0) {
    const got = isNull(value) ? "nothing" : value.kind === "sequence" ? "an empty list" : describeSource(value);
    log.error(value.at, `${title}: expected a limit or a list of limits, got ${got}`);
  }
  return items.flatMap((item) => {
    if (item.kind === "mapping") return [[item]];
    log.error(item.at, `${title}: each limit must be a mapping of keys, got ${describeSource(item)}`);
    return [];
  });
}
