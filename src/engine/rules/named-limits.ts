// Gathers the `limits` of files: limits with names, for rules that `use` one of them or choose among them by `tier`.

import { oneByteOf, textOf } from "../domain/request.ts";
import type { LimitsDraft } from "./draft.ts";
import { isNull, keyText } from "./fields.ts";
import { describeSource, formatPlace, type ProblemLog } from "./problems.ts";
import { fieldsOfFiles } from "./readers.ts";
import { LIMIT_NAMES_MAX } from "./schema.ts";
import type { MappingEntry, MappingNode, Place, SourceFile, SourceNode } from "./source.ts";

/** Limits as a rule or a file writes them. */
export interface WrittenLimits {
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
