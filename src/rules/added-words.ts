// Words that are added to a rule's own: the `defaults` that a file gives its domain, and what a control plane says under
// `headgate` in a rule's metadata, because its messages have no fields for it.

import { SYNC_NAMES, Sync } from "../core/limit.ts";
import { textOf } from "../core/request.ts";
import { type Field, isNull, readFields } from "./fields.ts";
import { describeSource, type ProblemLog } from "./problems.ts";
import { readSwitch, readText } from "./readers.ts";
import { REFERENCE_KEYS, SECTION_KEYS } from "./schema.ts";
import type { MappingEntry, MappingNode, SourceFile, SourceNode } from "./source.ts";

/** The member of a resource's metadata that holds them. */
const OWN_WORDS_KEY = "headgate";

/** Defaults of limits by domain, one-byte. */
export type Defaults = ReadonlyMap<string, MappingNode>;

/** The `defaults` of all files. Of a domain that has two the second is an error. */
export function gatherDefaults(files: readonly SourceFile[], log: ProblemLog): Defaults {
  const found = new Map<string, MappingNode>();
  for (const { root, isResource } of files) {
    if (root?.kind !== "mapping" || isResource === true) continue;
    if (!root.entries.some(({ key }) => key.text === "defaults")) continue;
    // What is wrong with the file's other keys is told when it is read as a whole.
    const fields = readFields("file", [root], log);
    const domain = readText(fields, "domain", log) ?? "";
    const field = fields.given("defaults");
    if (field === undefined) continue;
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

/** What is added to a rule: each stands in place of a section of its own. */
export interface AddedWords {
  /** Of the rule; undefined without any. */
  readonly rule: MappingNode | undefined;
  /** Of its one limit. */
  readonly limit: MappingNode | undefined;
  readonly defaults: MappingNode | undefined;
}

/** Words that the messages of a control plane can't carry. */
const LIMIT_WORDS: ReadonlySet<string> = new Set(SECTION_KEYS.limit.filter((key) => !REFERENCE_KEYS.has(key)));
const FIELDLESS: ReadonlySet<string> = new Set(["share_threshold", "value_to_metric"]);

/** The words in a rule's metadata; of a file's rule there are none. */
export function addedWords(
  mapping: MappingNode,
  isResource: boolean,
  defaults: MappingNode | undefined,
  log: ProblemLog,
): AddedWords {
  const words = isResource ? ownWordsOf(mapping, log) : undefined;
  if (words === undefined) return { rule: undefined, limit: undefined, defaults };
  const ofRule: MappingEntry[] = [];
  const ofLimit: MappingEntry[] = [];
  for (const entry of words.entries) {
    const { text, at } = entry.key;
    if (REFERENCE_KEYS.has(text) && !FIELDLESS.has(text)) {
      log.error(at, `'${text}' can't stand in metadata`, "The resource has a field of its own for it.");
    } else if (LIMIT_WORDS.has(text)) ofLimit.push(entry);
    else ofRule.push(entry);
  }
  return {
    rule: ofRule.length === 0 ? undefined : { ...words, entries: ofRule },
    limit: ofLimit.length === 0 ? undefined : { ...words, entries: ofLimit },
    defaults,
  };
}

function ownWordsOf(mapping: MappingNode, log: ProblemLog): MappingNode | undefined {
  const metadata = mapping.entries.find(({ key }) => key.text === "metadata")?.value;
  if (metadata?.kind !== "mapping") return undefined;
  const words = metadata.entries.find(({ key }) => key.text === OWN_WORDS_KEY)?.value;
  if (words === undefined || words.kind === "mapping") return words;
  log.error(words.at, `${OWN_WORDS_KEY}: expected a mapping of keys, got ${describeSource(words)}`);
  return undefined;
}

/** The metadata that goes out with answers: without the words above. */
export function withoutOwnWords(field: Field | undefined, isResource: boolean): Field | undefined {
  if (field === undefined || !isResource || field.value.kind !== "mapping") return field;
  const entries = field.value.entries.filter(({ key }) => key.text !== OWN_WORDS_KEY);
  return entries.length === 0 ? undefined : { ...field, value: { ...field.value, entries } };
}

const RATE_KEYS = ["tokens_per_second", "rps"];

/** What stands beside the limit and leaves no room for some defaults. */
interface Beside {
  readonly takesNoSync: boolean;
  /** No other `sync` than lease. */
  readonly takesOnlyLease: boolean;
  readonly hasFailurePolicy: boolean;
}

/**
 * A limit's section with what is added: defaults count least. Where an added word says the rate or the window, what the message
 * says of it gives way; where a default can't stand beside the limit's own words, it does.
 */
export function withAddedWords(
  section: readonly MappingNode[],
  { limit, defaults }: AddedWords,
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

/** `post_paid` of the defaults; undefined where they don't say it, or can't beside a `sync` of the limits' own. */
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
