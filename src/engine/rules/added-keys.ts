// Keys that are added to a rule's own: the `defaults` of the domain in a rule file, and the keys under `headgate` in the metadata of a
// control plane's rule, whose messages have no fields for them.

import { SYNC_NAMES, Sync } from "../domain/limit.ts";
import { textOf } from "../domain/request.ts";
import { type Field, fieldsOfFiles, isNull, readFields, readSwitch } from "./fields.ts";
import { describeSource, type ProblemLog } from "./problems.ts";
import { OWN_LIMIT_KEYS, RATE_KEYS, REFERENCE_KEYS } from "./schema.ts";
import type { MappingEntry, MappingNode, SourceFile, SourceNode } from "./source.ts";

/** The member of a rule's metadata that contains added keys. */
const OWN_KEYS_MEMBER = "headgate";

/** The `defaults` sections by domain, one-byte. */
export type Defaults = ReadonlyMap<string, MappingNode>;

/** Gathers the `defaults` of all files. A second section for one domain is an error. */
export function gatherDefaults(files: readonly SourceFile[], log: ProblemLog): Defaults {
  const found = new Map<string, MappingNode>();
  for (const { domain, field } of fieldsOfFiles(files, "defaults", log)) {
    if (field.value.kind !== "mapping") {
      log.error(field.value.at, `defaults: expected a mapping of keys, got ${describeSource(field.value)}`);
      continue;
    }
    readSwitch(readFields("defaults", [field.value], log), "post_paid", log);
    if (found.has(domain))
      log.error(field.keyAt, `the domain '${textOf(domain)}' has defaults in another file already`);
    else found.set(domain, field.value);
  }
  return found;
}

/** The keys that are added to a rule, each as a section. */
export interface AddedKeys {
  /** Keys of the rule itself; undefined if there are none. */
  readonly rule: MappingNode | undefined;
  /** Keys of the rule's one limit; undefined if there are none. */
  readonly limit: MappingNode | undefined;
  /** The `defaults` of the domain. */
  readonly defaults: MappingNode | undefined;
}

/** The reference service's keys for which the messages have no field. */
const KEYS_WITHOUT_FIELD: ReadonlySet<string> = new Set(["share_threshold", "value_to_metric"]);

/** The added keys of a rule. Only rules of resources have keys in their metadata. */
export function addedKeys(
  mapping: MappingNode,
  isResource: boolean,
  defaults: MappingNode | undefined,
  log: ProblemLog,
): AddedKeys {
  const ownKeys = isResource ? ownKeysOf(mapping, log) : undefined;
  if (ownKeys === undefined) return { rule: undefined, limit: undefined, defaults };
  const ofRule: MappingEntry[] = [];
  const ofLimit: MappingEntry[] = [];
  for (const entry of ownKeys.entries) {
    const { text, at } = entry.key;
    if (REFERENCE_KEYS.has(text) && !KEYS_WITHOUT_FIELD.has(text)) {
      log.error(at, `'${text}' can't stand in metadata`, "The resource has a field of its own for it.");
    } else if (OWN_LIMIT_KEYS.includes(text)) ofLimit.push(entry);
    else ofRule.push(entry);
  }
  return {
    rule: ofRule.length === 0 ? undefined : { ...ownKeys, entries: ofRule },
    limit: ofLimit.length === 0 ? undefined : { ...ownKeys, entries: ofLimit },
    defaults,
  };
}

function ownKeysOf(mapping: MappingNode, log: ProblemLog): MappingNode | undefined {
  const metadata = mapping.entries.find(({ key }) => key.text === "metadata")?.value;
  if (metadata?.kind !== "mapping") return undefined;
  const ownKeys = metadata.entries.find(({ key }) => key.text === OWN_KEYS_MEMBER)?.value;
  if (ownKeys === undefined || ownKeys.kind === "mapping") return ownKeys;
  log.error(ownKeys.at, `${OWN_KEYS_MEMBER}: expected a mapping of keys, got ${describeSource(ownKeys)}`);
  return undefined;
}

/** The metadata that is sent with answers, without the added keys. */
export function withoutOwnKeys(field: Field | undefined, isResource: boolean): Field | undefined {
  if (field === undefined || !isResource || field.value.kind !== "mapping") return field;
  const entries = field.value.entries.filter(({ key }) => key.text !== OWN_KEYS_MEMBER);
  return entries.length === 0 ? undefined : { ...field, value: { ...field.value, entries } };
}

/** Settings of the rule that exclude some defaults of its limits. */
interface Beside {
  /** True: no `sync`. */
  readonly takesNoSync: boolean;
  /** True: no `sync` but lease. */
  readonly takesOnlyLease: boolean;
  /** True: the rule has an `on_store_failure` of its own. */
  readonly hasFailurePolicy: boolean;
}

/**
 * The mappings of a limit with the added keys before its own; later ones override earlier ones, so defaults count least. An added rate
 * or window removes the message's own unit and amount. Defaults that the limit can't have beside its other keys are left out.
 */
export function withAddedKeys(
  section: readonly MappingNode[],
  { limit, defaults }: AddedKeys,
  { takesNoSync, takesOnlyLease, hasFailurePolicy }: Beside,
): MappingNode[] {
  const added = limit === undefined ? [] : [limit];
  const has = (keys: readonly string[]) => [...section, ...added].some((part) => hasKey(part, keys));
  let own = [...section];
  if (added.some((part) => hasKey(part, RATE_KEYS)))
    own = own.map((part) => without(part, ["unit", "requests_per_unit"]));
  else if (added.some((part) => hasKey(part, ["window"]))) own = own.map((part) => without(part, ["unit"]));
  if (defaults === undefined || section.some(isUnlimited)) return [...added, ...own];
  const unfit = [
    "post_paid",
    "hold",
    "concurrent",
    ...(has(RATE_KEYS) || [...section, ...added].some(hasCalendar) ? ["algorithm"] : []),
    ...(takesNoSync || has(["priority"]) || (takesOnlyLease && !saysLease(defaults)) ? ["sync"] : []),
    ...(hasFailurePolicy ? ["on_store_failure"] : []),
  ];
  return [without(defaults, unfit), ...added, ...own];
}

/** `post_paid` of the defaults. Undefined if they don't have it, or if it is true and a limit has a `sync` of its own. */
export function defaultPostPaid(
  defaults: MappingNode | undefined,
  limits: readonly (readonly MappingNode[])[],
  limit: MappingNode | undefined,
): boolean | undefined {
  const value = defaults?.entries.findLast(({ key }) => key.text === "post_paid")?.value;
  if (value?.kind !== "scalar" || value.value.type !== "boolean") return undefined;
  const { boolean } = value.value;
  const parts = [...limits.flat(), ...(limit === undefined ? [] : [limit])];
  return boolean && parts.some((part) => hasKey(part, ["sync"])) ? undefined : boolean;
}

function saysLease(defaults: MappingNode): boolean {
  const value = defaults.entries.findLast(({ key }) => key.text === "sync")?.value;
  return value?.kind === "scalar" && value.text === SYNC_NAMES[Sync.lease];
}

function hasKey(mapping: MappingNode, keys: readonly string[]): boolean {
  return mapping.entries.some(({ key, value }) => keys.includes(key.text) && !isNull(value));
}

function hasCalendar(mapping: MappingNode): boolean {
  return mapping.entries.some(({ key, value }) => key.text === "window" && value.kind === "mapping");
}

function without(mapping: MappingNode, keys: readonly string[]): MappingNode {
  return { ...mapping, entries: mapping.entries.filter(({ key }) => !keys.includes(key.text)) };
}

function isUnlimited(mapping: MappingNode): boolean {
  const value: SourceNode | undefined = mapping.entries.find(({ key }) => key.text === "unlimited")?.value;
  return value?.kind === "scalar" && value.value.type === "boolean" && value.value.boolean;
}
