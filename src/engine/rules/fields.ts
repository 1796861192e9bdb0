// Reads the keys of one section, and reports unknown, misplaced and repeated ones. readers.ts reads the values.

import { describeSource, type ProblemLog } from "./problems.ts";
import {
  homeOf,
  REFERENCE_KEYS,
  REFERENCE_SECTIONS,
  SECTION_HOMES,
  SECTION_KEYS,
  SECTION_TITLES,
  type Section,
} from "./schema.ts";
import type { MappingEntry, MappingNode, Place, ScalarNode, SourceNode } from "./source.ts";
import { suggest } from "./suggest.ts";

/** One key of a section with all values given for it. The last value counts. */
export interface Field {
  readonly name: string;
  readonly keyAt: Place;
  readonly value: SourceNode;
  /** Earlier values, which `value` overrides by repetition or through a merge key. */
  readonly overridden: readonly SourceNode[];
}

/** The known keys of one section. */
export class Fields {
  /** Where the section begins. */
  readonly at: Place;
  /** True if a key was refused. A missing key is not reported then, because the refused one may be the same key misspelt. */
  readonly hasRefused: boolean;
  readonly #fields: ReadonlyMap<string, Field>;

  constructor(at: Place, fields: ReadonlyMap<string, Field>, hasRefused: boolean) {
    this.at = at;
    this.hasRefused = hasRefused;
    this.#fields = fields;
  }

  get(name: string): Field | undefined {
    return this.#fields.get(name);
  }

  /** The field; undefined if it is absent or null. */
  given(name: string): Field | undefined {
    const field = this.#fields.get(name);
    return field === undefined || isNull(field.value) ? undefined : field;
  }

  /** The first of `names` that is given. */
  firstGiven(names: readonly string[]): Field | undefined {
    for (const name of names) {
      const field = this.given(name);
      if (field !== undefined) return field;
    }
    return undefined;
  }
}

/**
 * Reads the keys of a section from one mapping, or from several of which later ones override earlier ones.
 * Reports unknown, misplaced and repeated keys.
 */
export function readFields(section: Section, mappings: readonly MappingNode[], log: ProblemLog): Fields {
  const fields = new Map<string, Field>();
  const errorsBefore = log.errorCount;
  for (const mapping of mappings) {
    const writtenHere = new Set<string>();
    for (const entry of mapping.entries) {
      const name = keyText(entry.key, log);
      if (name === undefined) continue;
      if (!entry.isMerged) {
        if (writtenHere.has(name)) log.warn(entry.key.at, `'${name}' is given twice; only the last one counts`);
        writtenHere.add(name);
      }
      if (!isKeyOf(section, name, entry, log)) continue;
      const earlier = fields.get(name);
      const overridden = earlier === undefined ? [] : [...earlier.overridden, earlier.value];
      fields.set(name, { name, keyAt: entry.key.at, value: entry.value, overridden });
    }
  }
  return new Fields(mappings.at(-1)?.at ?? { file: "", line: 1, column: 1 }, fields, log.errorCount > errorsBefore);
}

/** True for null in any spelling. */
export function isNull(node: SourceNode): boolean {
  return node.kind === "scalar" && node.value.type === "null";
}

/** The text of a key; one-byte if it is binary. A key of another type is reported, and the result is undefined. */
export function keyText(key: ScalarNode, log: ProblemLog): string | undefined {
  if (key.value.type === "text") return key.text;
  if (key.value.type === "binary") return key.value.bytes;
  log.error(
    key.at,
    `a key must be text, got ${describeSource(key)}, which YAML reads as ${key.value.type}`,
    "Put it in quotes if it's meant to be text.",
  );
  return undefined;
}

function isKeyOf(section: Section, name: string, entry: MappingEntry, log: ProblemLog): boolean {
  if (SECTION_KEYS[section].includes(name)) return true;
  const home = homeOf(name);
  const at = entry.key.at;
  if (REFERENCE_KEYS.has(name) && REFERENCE_SECTIONS.has(section)) {
    const move = home === undefined ? "" : `; it belongs ${SECTION_HOMES[home]}`;
    log.warn(at, `'${name}' means nothing ${SECTION_TITLES[section]} and is ignored${move}`);
    if (name !== "metadata") checkIgnored(entry.value, log);
    return false;
  }
  const known = SECTION_KEYS[section];
  if (home !== undefined && home !== section) {
    log.error(at, `'${name}' can't stand ${SECTION_TITLES[section]}`, `It belongs ${SECTION_HOMES[home]}.`);
  } else {
    const hint = suggest(name, known);
    const words = hint === undefined ? `; expected one of ${known.join(", ")}` : "";
    log.error(at, `unknown key '${name}' ${SECTION_TITLES[section]}${words}`, hint);
  }
  return false;
}

/** Checks the grammar of a value that is ignored, because the reference service refuses files with mistakes there. */
function checkIgnored(node: SourceNode, log: ProblemLog): void {
  if (node.kind === "scalar") {
    refuseFloat(node, log);
  } else if (node.kind === "sequence") {
    for (const item of node.items) {
      if (item.kind === "mapping") checkIgnored(item, log);
      else log.error(item.at, `a list here must hold mappings, got ${describeSource(item)}`);
    }
  } else {
    for (const entry of node.entries) {
      const name = keyText(entry.key, log);
      if (name === undefined) continue;
      if (!REFERENCE_KEYS.has(name)) log.error(entry.key.at, `unknown key '${name}'`, suggest(name, REFERENCE_KEYS));
      else if (name !== "metadata") checkIgnored(entry.value, log);
    }
  }
}

/** Reports numbers that YAML reads as a fraction or beyond 64 bits, whose text the reference's parser would change. True if so. */
export function refuseFloat(node: ScalarNode, log: ProblemLog): boolean {
  const { type } = node.value;
  if (type !== "float" && type !== "large integer") return false;
  const what = type === "float" ? "a decimal number" : "a number beyond 64 bits";
  log.error(
    node.at,
    `${describeSource(node)} reads as ${what}, which can't stand here`,
    "Put it in quotes if it's meant to be text.",
  );
  return true;
}
