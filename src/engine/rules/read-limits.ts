// Reads all limits of a rule, which it writes itself or uses by a name of the file's `limits`: always those of one name
// (`use`), or those that an entry names (`tier`).

import { getOrInsert } from "../../base/get-or-insert.ts";
import { oneByteOf, textOf } from "../domain/request.ts";
import { defaultPostPaid, withDefaults } from "./defaults.ts";
import type { LimitDraft, LimitsDraft, RuleDraft, TierDraft } from "./draft.ts";
import { type Field, Fields, fieldsOfFiles, isNull, readScalars, shownKeyOf, textOfNode } from "./fields.ts";
import { warnUnsafe } from "./names.ts";
import { describeSource, formatPlace, type ProblemLog } from "./problems.ts";
import { readLimit, readUnlimited } from "./read-limit.ts";
import { LIMIT_NAMES_MAX, LIMITS_PER_RULE_MAX } from "./schema.ts";
import {
  isInResource,
  type MappingEntry,
  type MappingNode,
  type Place,
  type SourceFile,
  type SourceNode,
} from "./source.ts";
import { suggestionFor } from "./suggest.ts";

/** Limits as a rule or a file writes them. */
interface WrittenLimits {
  /** One-byte; empty if a rule writes them. */
  readonly name: string;
  readonly at: Place;
  /** What messages call them. */
  readonly title: string;
  /** The mappings of each limit; later ones override earlier ones. */
  readonly sections: readonly (readonly MappingNode[])[];
  /** True for a list, in which each limit needs a label. */
  readonly isList: boolean;
}

/** Limits with a name. */
interface NamedLimits extends WrittenLimits {
  /** Set to true by the first rule that uses them. */
  isUsed: boolean;
  /**
   * Results of reading by the rule's settings that matter (readNamed), because thousands of rules may use the same
   * limits.
   */
  readonly read: Map<string, LimitsDraft>;
}

/**
 * Reads all limits that may apply to a rule, each with the limit of its `concurrent`. `named`: the domain's named
 * limits.
 */
export function readRuleLimits(
  fields: Fields,
  named: LimitsByName,
  defaults: MappingNode | undefined,
  concurrent: LimitDraft | undefined,
): Pick<RuleDraft, "limits" | "tier"> {
  const withConcurrent = (draft: LimitsDraft): LimitsDraft =>
    concurrent === undefined || draft.unlimited !== undefined
      ? draft
      : { ...draft, hasLimit: true, limits: [...draft.limits, concurrent] };
  const { byDefault, tier } = readChoice(fields, named);
  if (byDefault === undefined) {
    const limits = readLimits(fields, readWritten(fields), defaults);
    return { limits: withConcurrent(limits), tier: undefined };
  }
  const read = (limits: NamedLimits) => withConcurrent(readNamed(fields, limits, defaults));
  const limits = read(byDefault);
  if (tier === undefined) return { limits, tier };
  const choices = tier.among.map((each) => (each === byDefault ? limits : read(each)));
  return { limits, tier: { entry: tier.entry, choices } };
}

/** The sections that the rule itself has under `rate_limit` and `rate_limits`. */
function readWritten(fields: Fields): WrittenLimits {
  const one = fields.parts("rate_limit");
  const listField = fields.given("rate_limits");
  const sections = one === undefined ? fields.mappings("rate_limits").map((mapping) => [mapping]) : [one];
  const isList = one === undefined && listField !== undefined;
  const says = "'rate_limits' can't be combined with 'rate_limit'";
  if (one !== undefined) fields.refuse("rate_limits", says, "Move the limit into the list.");
  if (isList && listField.value.kind === "sequence" && listField.value.items.length === 0) {
    const hint = "Remove it if the rule has no limit.";
    fields.log.error(listField.value.at, "rate_limits: the list is empty", hint);
  }
  return { name: "", at: fields.valueAt("rate_limits"), title: "rate_limits", sections, isList };
}

/** Reads named limits for the rule with these fields. Rules whose relevant settings are equal share one result. */
function readNamed(fields: Fields, named: NamedLimits, defaults: MappingNode | undefined): LimitsDraft {
  const own = fields.given("post_paid") === undefined ? "" : String(fields.flag("post_paid"));
  const ownKeys = ["hold", "on_store_failure"].filter((name) => fields.given(name) !== undefined);
  const key = [own, ...ownKeys].join();
  return getOrInsert(named.read, key, () => readLimits(fields, named, defaults));
}

/** Reads limits for the rule with these fields. */
function readLimits(
  fields: Fields,
  { name, at, title, sections, isList }: WrittenLimits,
  defaults: MappingNode | undefined,
): LimitsDraft {
  const { log } = fields;
  if (sections.length > LIMITS_PER_RULE_MAX)
    log.error(at, `${title}: expected at most ${LIMITS_PER_RULE_MAX} limits, got ${sections.length}`);
  const own = fields.given("post_paid") === undefined ? undefined : fields.flag("post_paid");
  const byDefault = defaultPostPaid(defaults, sections);
  const traits = {
    takesNoSync: (own ?? byDefault) === true || fields.given("hold") !== undefined,
    hasFailurePolicy: fields.given("on_store_failure") !== undefined,
  };
  const limits: LimitDraft[] = [];
  let unlimited: Fields | undefined;
  for (const section of sections) {
    const limitFields = new Fields("limit", withDefaults(section, defaults, traits), log);
    const isUnlimited = limitFields.flag("unlimited");
    if (isUnlimited) unlimited = limitFields;
    const limit = isUnlimited ? undefined : readLimit(limitFields);
    if (limit !== undefined) limits.push(limit);
  }
  const draft = { name, isList, hasLimit: sections.length > 0 };
  if (unlimited === undefined) {
    return { ...draft, unlimited, limits, postPaid: own ?? (limits.length === 0 ? undefined : byDefault) };
  }
  if (sections.length > 1) log.error(unlimited.at, "an unlimited rule can't have other limits");
  return { ...draft, unlimited: readUnlimited(unlimited), limits: [], postPaid: own };
}

/** The named limits of a rule. */
interface NamedChoice {
  /**
   * The limits that apply unless the entry names others; undefined if the rule uses none, or with mistakes, which are
   * reported.
   */
  readonly byDefault?: NamedLimits | undefined;
  /** The entry, and the limits that it may name. */
  readonly tier?: Pick<TierDraft, "entry"> & { readonly among: readonly NamedLimits[] };
}

/** Most names of limits in a message. */
const SHOWN_NAMES_MAX = 8;

function readChoice(fields: Fields, named: LimitsByName): NamedChoice {
  const { log } = fields;
  const first = fields.firstGiven(["use", "tier"]);
  if (first === undefined) return {};
  refuseBeside(first, fields);
  if (first.name === "use") return { byDefault: find(fields.text("use"), first, named, log) };
  const section = fields.section("tier", "tier");
  if (section === undefined) return {};
  const entry = section.text("entry") ?? "";
  const name = section.text("default");
  const nameField = section.given("default");
  if (entry === "") section.missing("tier: 'entry' is missing; it names the entry that carries the tier");
  if (nameField === undefined)
    section.missing("tier: 'default' is missing", "Name the limits for callers without a known tier.");
  const byDefault = nameField && find(name, nameField, named, log);
  const among = new Set(readAmong(section, named));
  for (const limits of among) limits.isUsed = true;
  if (entry === "" || byDefault === undefined) return {};
  return { byDefault, tier: { entry, among: [...among.add(byDefault)] } };
}

function readAmong(fields: Fields, named: LimitsByName): readonly NamedLimits[] {
  const field = fields.given("among");
  if (field === undefined) return [...named.values()];
  return readScalars(field, fields.log).flatMap(
    (value) => find(textOfNode("among", value, fields.log), { name: "among", value }, named, fields.log) ?? [],
  );
}

function find(
  name: string | undefined,
  field: Pick<Field, "name" | "value">,
  named: LimitsByName,
  log: ProblemLog,
): NamedLimits | undefined {
  if (name === undefined) return undefined;
  const found = named.get(name);
  if (found !== undefined) {
    found.isUsed = true;
    return found;
  }
  const names = [...named.keys()].map(textOf);
  const hint = suggestionFor(textOf(name), names);
  const shown = `${names.slice(0, SHOWN_NAMES_MAX).join(", ")}${names.length > SHOWN_NAMES_MAX ? ", ..." : ""}`;
  const known =
    names.length === 0 ? "; this domain has no 'limits'" : hint === undefined ? `; expected one of ${shown}` : "";
  const text = `${field.name}: no limits are named '${textOf(name)}'${known}`;
  // Named limits are in a file, and a control plane's set must never be refused because of a file.
  if (isInResource(field.value.at)) log.warn(field.value.at, `${text}, so the resource's own limit applies`, hint);
  else log.error(field.value.at, text, hint);
  return undefined;
}

// The limit in a control plane's message is overridden and not reported, because the message can't leave it out.
function refuseBeside(first: Field, fields: Fields): void {
  for (const name of ["tier", "rate_limit", "rate_limits"]) {
    const other = fields.given(name);
    if (other === undefined || other === first || (name === "rate_limit" && isInResource(other.keyAt))) continue;
    fields.log.error(other.keyAt, `'${name}' can't be combined with '${first.name}'`, "Keep one of the two.");
  }
}

/**
 * Reports mistakes in named limits that no rule uses, and warns of them unless rules of a control plane may
 * (`isPartial`). Must be called when all files have been read.
 */
export function checkUnused(
  named: ReadonlyMap<string, LimitsByName>,
  defaults: ReadonlyMap<string, MappingNode>,
  { log, isPartial }: { readonly log: ProblemLog; readonly isPartial: boolean },
): void {
  for (const [domain, ofDomain] of named) {
    for (const limits of ofDomain.values()) {
      if (limits.isUsed) continue;
      if (!isPartial)
        log.warn(limits.at, `${limits.title} is not used by any rule`, "Refer to it by 'use' or 'tier', or remove it.");
      readLimits(new Fields("rule", [], log), limits, defaults.get(domain));
    }
  }
}

/** The named limits of one domain, in the order of its files. */
export type LimitsByName = ReadonlyMap<string, NamedLimits>;

/** The named limits of all files, by domain. A repeated name in a domain is an error. */
export function gatherNamedLimits(files: readonly SourceFile[], log: ProblemLog): ReadonlyMap<string, LimitsByName> {
  const found = new Map<string, Map<string, NamedLimits>>();
  for (const { domain, field } of fieldsOfFiles(files, "limits", log)) {
    if (field.value.kind !== "mapping") {
      const hint = "The limits of one rule go under its 'rate_limits'.";
      log.wrong(field.value, "limits: expected a mapping of names to limits", hint);
      continue;
    }
    const ofDomain = getOrInsert(found, domain, () => new Map());
    for (const entry of field.value.entries) add(ofDomain, entry, log);
    if (ofDomain.size > LIMIT_NAMES_MAX)
      log.error(field.keyAt, `limits: expected at most ${LIMIT_NAMES_MAX} names in a domain, got ${ofDomain.size}`);
  }
  return found;
}

function add(found: Map<string, NamedLimits>, { key, value, isMerged }: MappingEntry, log: ProblemLog): void {
  const text = shownKeyOf(key, log);
  if (text === undefined) return;
  const name = key.value.type === "binary" ? text : oneByteOf(text);
  const first = found.get(name);
  if (name === "") log.error(key.at, "limits: a name is empty");
  if (first !== undefined && !isMerged) {
    log.error(key.at, `limits: '${textOf(name)}' is already defined at ${formatPlace(first.at)}`);
    return;
  }
  warnUnsafe(name, key.at, log);
  const title = `limits: '${textOf(name)}'`;
  const sections = sectionsOf(title, value, log);
  const isList = value.kind === "sequence";
  found.set(name, { name, at: key.at, title, sections, isList, isUsed: false, read: new Map() });
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
    log.wrong(item, `${title}: each limit must be a mapping of keys`);
    return [];
  });
}
