// The `defaults` of a domain, in a rule file: keys that count for each of its limits that has none of its own.

import { textOf } from "../domain/request.ts";
import { Fields, fieldsOfFiles, isNull } from "./fields.ts";
import type { ProblemLog } from "./problems.ts";
import { readRequired } from "./required.ts";
import { RATE_KEYS } from "./schema.ts";
import type { MappingNode, SourceFile, SourceNode } from "./source.ts";

/** The `defaults` sections by domain, one-byte. */
export type Defaults = ReadonlyMap<string, MappingNode>;

/** Gathers the `defaults` of all files. A second section for one domain is an error. */
export function gatherDefaults(files: readonly SourceFile[], log: ProblemLog): Defaults {
  const found = new Map<string, MappingNode>();
  for (const { domain, field } of fieldsOfFiles(files, "defaults", log)) {
    if (field.value.kind !== "mapping") {
      log.wrong(field.value, "defaults: expected a mapping of keys");
      continue;
    }
    const fields = new Fields("defaults", [field.value], log);
    fields.flag("post_paid");
    readRequired(fields);
    if (found.has(domain))
      log.error(field.keyAt, `the domain '${textOf(domain)}' already has defaults in another file`);
    else found.set(domain, field.value);
  }
  return found;
}

/** Settings of the rule that exclude some defaults of its limits. */
interface RuleTraits {
  /** True: no `sync`. */
  readonly takesNoSync: boolean;
  /** True: the rule has an `on_store_failure` of its own. */
  readonly hasFailurePolicy: boolean;
}

/**
 * The mappings of a limit with the defaults before its own; later ones override earlier ones. Defaults that exclude
 * its other keys are left out.
 */
export function withDefaults(
  section: readonly MappingNode[],
  defaults: MappingNode | undefined,
  { takesNoSync, hasFailurePolicy }: RuleTraits,
): readonly MappingNode[] {
  if (defaults === undefined || section.some(isUnlimited)) return section;
  const has = (keys: readonly string[]) => section.some((part) => hasKey(part, keys));
  const unfit = [
    "post_paid",
    "hold",
    "concurrent",
    "require",
    "on_missing",
    ...(has(RATE_KEYS) || section.some(hasCalendar) ? ["algorithm"] : []),
    ...(takesNoSync || has(["priority", "guarantee"]) ? ["sync"] : []),
    ...(hasFailurePolicy ? ["on_store_failure"] : []),
  ];
  return [without(defaults, unfit), ...section];
}

/**
 * `post_paid` of the defaults. Undefined if they don't have it, or if it is true and a limit has a `sync` of its own.
 */
export function defaultPostPaid(
  defaults: MappingNode | undefined,
  limits: readonly (readonly MappingNode[])[],
): boolean | undefined {
  const value = defaults?.entries.findLast(({ key }) => key.text === "post_paid")?.value;
  if (value?.kind !== "scalar" || value.value.type !== "boolean") return undefined;
  const { boolean } = value.value;
  return boolean && limits.flat().some((part) => hasKey(part, ["sync"])) ? undefined : boolean;
}

/** True if the mapping has one of the keys, with a value. */
export function hasKey(mapping: MappingNode, keys: readonly string[]): boolean {
  return mapping.entries.some(({ key, value }) => keys.includes(key.text) && !isNull(value));
}

function hasCalendar(mapping: MappingNode): boolean {
  return mapping.entries.some(({ key, value }) => key.text === "window" && value.kind === "mapping");
}

/** The mapping without these keys. */
export function without(mapping: MappingNode, keys: readonly string[]): MappingNode {
  return { ...mapping, entries: mapping.entries.filter(({ key }) => !keys.includes(key.text)) };
}

function isUnlimited(mapping: MappingNode): boolean {
  const value: SourceNode | undefined = mapping.entries.find(({ key }) => key.text === "unlimited")?.value;
  return value?.kind === "scalar" && value.value.type === "boolean" && value.value.boolean;
}
