// Reads the keys of one section, and reports unknown, misplaced and repeated ones; then the values of its fields: text, booleans, whole
// numbers, lists. Each reader reports a wrong value as an error, which refuses the set, and returns undefined or an empty value.

import { AMOUNT_MAX } from "../base/units.ts";
import { ENTRY_BYTES_MAX, oneByteOf } from "../domain/request.ts";
import { describeSource, type ProblemLog } from "./problems.ts";
import { homeOf, REFERENCE_KEYS, REFERENCE_SECTIONS, SECTIONS, type Section } from "./schema.ts";
import type { MappingEntry, MappingNode, Place, ScalarNode, SourceFile, SourceNode } from "./source.ts";
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
  const { keys: known, title } = SECTIONS[section];
  if (known.includes(name)) return true;
  const home = homeOf(name);
  const at = entry.key.at;
  if (REFERENCE_KEYS.has(name) && REFERENCE_SECTIONS.has(section)) {
    const move = home === undefined ? "" : `; it belongs ${SECTIONS[home].home}`;
    log.warn(at, `'${name}' means nothing ${title} and is ignored${move}`);
    if (name !== "metadata") checkIgnored(entry.value, log);
    return false;
  }
  if (home !== undefined && home !== section) {
    log.error(at, `'${name}' can't stand ${title}`, `It belongs ${SECTIONS[home].home}.`);
  } else {
    const hint = suggest(name, known);
    const words = hint === undefined ? `; expected one of ${known.join(", ")}` : "";
    log.error(at, `unknown key '${name}' ${title}${words}`, hint);
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
function refuseFloat(node: ScalarNode, log: ProblemLog): boolean {
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

/** The field `name` of each file that has it, with the domain of the file. Resources have none. */
export function* fieldsOfFiles(
  files: readonly SourceFile[],
  name: string,
  log: ProblemLog,
): Generator<{ readonly domain: string; readonly field: Field }> {
  for (const { root, isResource } of files) {
    if (isResource === true || root?.kind !== "mapping") continue;
    if (!root.entries.some(({ key }) => key.text === name)) continue;
    // Mistakes in the file's other keys are reported when the whole file is read.
    const fields = readFields("file", [root], log);
    const domain = readText(fields, "domain", log) ?? "";
    const field = fields.given(name);
    if (field !== undefined) yield { domain, field };
  }
}

/** Text in one-byte form; undefined if absent, null or not text. Numbers and booleans count as their written text. */
export function readText(fields: Fields, name: string, log: ProblemLog): string | undefined {
  const field = fields.get(name);
  if (field === undefined) return undefined;
  for (const node of field.overridden) if (node.kind !== "scalar") textOfNode(field.name, node, log);
  return isNull(field.value) ? undefined : textOfNode(field.name, field.value, log);
}

/** One-byte text of a scalar that is not null, of at most ENTRY_BYTES_MAX bytes. `name` names it in the error. */
export function textOfNode(name: string, node: SourceNode, log: ProblemLog): string | undefined {
  if (node.kind !== "scalar" || node.value.type === "null") {
    log.error(node.at, `${name}: expected text, got ${describeSource(node)}`);
    return undefined;
  }
  if (refuseFloat(node, log)) return undefined;
  const text = node.value.type === "binary" ? node.value.bytes : oneByteOf(node.text);
  if (text.length <= ENTRY_BYTES_MAX) return text;
  log.error(node.at, `${name}: expected at most ${ENTRY_BYTES_MAX} bytes, as calls may have, got ${text.length}`);
  return undefined;
}

/** A boolean; false if absent, null or wrong. */
export function readSwitch(fields: Fields, name: string, log: ProblemLog): boolean {
  const field = fields.get(name);
  if (field === undefined) return false;
  for (const node of field.overridden) switchOf(name, node, log);
  return switchOf(name, field.value, log);
}

function switchOf(name: string, node: SourceNode, log: ProblemLog): boolean {
  if (node.kind === "scalar" && node.value.type === "boolean") return node.value.boolean;
  if (isNull(node)) return false;
  const isWord = node.kind === "scalar" && /^(y|yes|on|true|1|n|no|off|false|0)$/i.test(node.text);
  log.error(
    node.at,
    `${name}: expected true or false, got ${describeSource(node)}`,
    isWord ? `Write ${/^(y|yes|on|true|1)$/i.test(node.text) ? "true" : "false"} without quotes.` : undefined,
  );
  return false;
}

/** A whole number within bounds (`max` defaults to AMOUNT_MAX); undefined if absent, null or wrong. */
export function readWhole(
  fields: Fields,
  name: string,
  bounds: { min: number; max?: number },
  log: ProblemLog,
): number | undefined {
  const field = fields.get(name);
  if (field === undefined) return undefined;
  // Overridden values may be fractions, because the reference truncates them without an error.
  for (const node of field.overridden) if (!isFloat(node)) wholeOf(name, node, bounds, log);
  return wholeOf(name, field.value, bounds, log);
}

function wholeOf(
  name: string,
  node: SourceNode,
  { min, max = AMOUNT_MAX }: { min: number; max?: number },
  log: ProblemLog,
): number | undefined {
  if (isNull(node)) return undefined;
  const value = node.kind === "scalar" ? node.value : undefined;
  if (value?.type === "integer" && value.number >= min && value.number <= max) return value.number;
  const isQuotedNumber = node.kind === "scalar" && node.isQuoted && /^\d+$/.test(node.text);
  log.error(
    node.at,
    `${name}: expected a whole number from ${min} to ${max}, got ${describeSource(node)}`,
    isQuotedNumber ? "Write it without quotes." : undefined,
  );
  return undefined;
}

function isFloat(node: SourceNode): boolean {
  return node.kind === "scalar" && node.value.type === "float";
}

/** A number within bounds, fractions allowed; undefined if absent, null or wrong. */
export function readNumber(
  fields: Fields,
  name: string,
  bounds: { min: number; max: number },
  log: ProblemLog,
): number | undefined {
  const field = fields.given(name);
  if (field === undefined) return undefined;
  const value = field.value.kind === "scalar" ? field.value.value : undefined;
  const number = value?.type === "integer" || value?.type === "float" ? value.number : Number.NaN;
  if (number >= bounds.min && number <= bounds.max) return number;
  const { min, max } = bounds;
  log.error(field.value.at, `${name}: expected a number from ${min} to ${max}, got ${describeSource(field.value)}`);
  return undefined;
}

/** The index of the value in `words`; undefined if absent, null or another word. */
export function readWord(fields: Fields, name: string, words: readonly string[], log: ProblemLog): number | undefined {
  const field = fields.given(name);
  if (field === undefined) return undefined;
  const text = field.value.kind === "scalar" ? field.value.text : "";
  const index = words.indexOf(text);
  if (index >= 0) return index;
  const expected = `${name}: expected one of ${words.join(", ")}, got ${describeSource(field.value)}`;
  log.error(field.value.at, expected, suggest(text, words));
  return undefined;
}

const LIMITS_HINT = "A list of limits stands under 'rate_limits'.";

/** The mappings of a section; later ones override earlier ones. Undefined if absent or null. */
export function readSection(field: Field | undefined, log: ProblemLog): MappingNode[] | undefined {
  if (field === undefined) return undefined;
  let mappings: MappingNode[] = [];
  for (const node of [...field.overridden, field.value]) {
    if (node.kind === "mapping") mappings.push(node);
    else if (isAbsent(node)) mappings = [];
    else {
      const hint = node.kind === "sequence" && field.name === "rate_limit" ? LIMITS_HINT : undefined;
      log.error(node.at, `${field.name}: expected a mapping of keys, got ${describeSource(node)}`, hint);
    }
  }
  return mappings.length === 0 ? undefined : mappings;
}

/** The mappings of a list; empty if absent or null. Other items are reported and left out. */
export function readMappings(field: Field | undefined, log: ProblemLog): MappingNode[] {
  if (field === undefined) return [];
  for (const node of [...field.overridden, field.value]) {
    if (node.kind === "sequence" || isNull(node)) continue;
    log.error(node.at, `${field.name}: expected a list, got ${describeSource(node)}`, hintDash(node));
  }
  if (field.value.kind !== "sequence") return [];
  const mappings: MappingNode[] = [];
  for (const item of field.value.items) {
    if (item.kind === "mapping") mappings.push(item);
    else log.error(item.at, `${field.name}: each item must be a mapping of keys, got ${describeSource(item)}`);
  }
  return mappings;
}

function hintDash(node: SourceNode): string | undefined {
  return node.kind === "mapping" ? "Begin each item with '- '." : undefined;
}

/** One scalar, or the scalars of a list. An empty list and other items are reported. */
export function readScalars(field: Field, log: ProblemLog): ScalarNode[] {
  const nodes = field.value.kind === "sequence" ? field.value.items : [field.value];
  if (nodes.length === 0) log.error(field.value.at, `${field.name}: the list is empty, so nothing could match`);
  const scalars: ScalarNode[] = [];
  for (const node of nodes) {
    if (node.kind === "scalar" && node.value.type !== "null") scalars.push(node);
    else log.error(node.at, `${field.name}: expected text, got ${describeSource(node)}`);
  }
  return scalars;
}

// For the reference, `null`, `~` and nothing mean that the section is absent, but Null and NULL mean an empty section.
function isAbsent(node: SourceNode): boolean {
  return node.kind === "scalar" && node.value.type === "null" && !/^N/.test(node.text);
}
