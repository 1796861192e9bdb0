// Reads the keys of one section, and reports unknown, misplaced and repeated ones; then the values of its fields: text,
// booleans, whole numbers, lists. Each reader reports a wrong value as an error, which refuses the set, and returns
// undefined or an empty value.

import { AMOUNT_MAX } from "../../base/units.ts";
import { ENTRY_BYTES_MAX, oneByteOf } from "../domain/request.ts";
import { describeSource, type ProblemLog } from "./problems.ts";
import { homeOf, type KnownKeys, REFERENCE_KEYS, REFERENCE_SECTIONS, SECTIONS, type Section } from "./schema.ts";
import type { MappingEntry, MappingNode, Place, ScalarNode, SourceFile, SourceNode } from "./source.ts";
import { suggestionFor } from "./suggest.ts";

/** One key of a section with all values given for it. The last value counts. */
export interface Field {
  readonly name: string;
  readonly keyAt: Place;
  readonly value: SourceNode;
  /** Earlier values, which `value` overrides by repetition or through a merge key. */
  readonly overridden: readonly SourceNode[];
}

/** The known keys of one section, and readers of their values. */
export class Fields {
  /** Where the section begins. */
  readonly at: Place;
  /** True if a key was refused. */
  readonly hasRefused: boolean;
  /** Gets all mistakes. */
  readonly log: ProblemLog;
  readonly #fields = new Map<string, Field>();

  /**
   * Reads the keys of a section from one mapping, or from several of which later ones override earlier ones.
   * Reports unknown, misplaced and repeated keys. `section`: one of rule files by its name, or one of another file.
   */
  constructor(section: Section | KnownKeys, mappings: readonly MappingNode[], log: ProblemLog) {
    const errorsBefore = log.errorCount;
    for (const mapping of mappings) {
      const writtenHere = new Set<string>();
      for (const entry of mapping.entries) {
        const name = shownKeyOf(entry.key, log);
        if (name === undefined) continue;
        if (!entry.isMerged) {
          if (writtenHere.has(name)) log.warn(entry.key.at, `'${name}' is given twice; only the last one counts`);
          writtenHere.add(name);
        }
        if (!isKeyOf(section, name, entry, log)) continue;
        const earlier = this.#fields.get(name);
        const overridden = earlier === undefined ? [] : [...earlier.overridden, earlier.value];
        this.#fields.set(name, { name, keyAt: entry.key.at, value: entry.value, overridden });
      }
    }
    this.at = mappings.at(-1)?.at ?? { file: "", line: 1, column: 1 };
    this.log = log;
    this.hasRefused = log.errorCount > errorsBefore;
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
    return names.map((name) => this.given(name)).find((field) => field !== undefined);
  }

  /** The place of the key; the section's place if it is absent. */
  keyAt(name: string): Place {
    return this.#fields.get(name)?.keyAt ?? this.at;
  }

  /** The place of the value; the section's place if it is absent. */
  valueAt(name: string): Place {
    return this.#fields.get(name)?.value.at ?? this.at;
  }

  /** Reports the key if it is given: it is not allowed here. */
  refuse(name: string, message: string, suggestion: string): void {
    const field = this.given(name);
    if (field !== undefined) this.log.error(field.keyAt, message, suggestion);
  }

  /** Reports a key that is missing, unless a key was refused, which may be the same one misspelt. */
  missing(message: string, suggestion?: string): undefined {
    if (!this.hasRefused) this.log.error(this.at, message, suggestion);
  }

  /** Text in one-byte form; undefined if absent, null or not text. Numbers and booleans count as their written text. */
  text(name: string): string | undefined {
    const field = this.#fields.get(name);
    if (field === undefined) return undefined;
    return isNull(field.value) ? undefined : textOfNode(name, field.value, this.log);
  }

  /** A boolean; false if absent, null or wrong. */
  flag(name: string): boolean {
    const field = this.#fields.get(name);
    if (field === undefined) return false;
    return flagOf(name, field.value, this.log);
  }

  /** A whole number within bounds; undefined if absent, null or wrong. */
  whole(name: string, min: number, max = AMOUNT_MAX): number | undefined {
    const field = this.#fields.get(name);
    if (field === undefined) return undefined;
    return wholeOf(name, field.value, min, max, this.log);
  }

  /** A number within bounds, fractions allowed; undefined if absent, null or wrong. */
  number(name: string, min: number, max: number): number | undefined {
    const value = this.given(name)?.value;
    if (value === undefined) return undefined;
    const scalar = value.kind === "scalar" ? value.value : undefined;
    const number = scalar?.type === "integer" || scalar?.type === "float" ? scalar.number : Number.NaN;
    if (number >= min && number <= max) return number;
    return this.log.wrong(value, `${name}: expected a number from ${min} to ${max}`);
  }

  /** The index of the value in `words`; undefined if absent, null or another word. */
  word(name: string, words: readonly string[]): number | undefined {
    const value = this.given(name)?.value;
    if (value === undefined) return undefined;
    const text = value.kind === "scalar" ? value.text : "";
    const index = words.indexOf(text);
    if (index >= 0) return index;
    return this.log.wrong(value, `${name}: expected one of ${words.join(", ")}`, suggestionFor(text, words));
  }

  /** The keys of a section inside this one; undefined if absent or null. */
  section(name: string, section: Section | KnownKeys): Fields | undefined {
    const mappings = this.parts(name);
    return mappings === undefined ? undefined : new Fields(section, mappings, this.log);
  }

  /** The mappings of a section; later ones override earlier ones. Undefined if absent or null. */
  parts(name: string): MappingNode[] | undefined {
    const field = this.#fields.get(name);
    if (field === undefined) return undefined;
    let mappings: MappingNode[] = [];
    for (const node of [...field.overridden, field.value]) {
      if (node.kind === "mapping") mappings.push(node);
      else if (isAbsent(node)) mappings = [];
      else {
        const hint = node.kind === "sequence" && name === "rate_limit" ? LIMITS_HINT : undefined;
        this.log.wrong(node, `${name}: expected a mapping of keys`, hint);
      }
    }
    return mappings.length === 0 ? undefined : mappings;
  }

  /** The mappings of a list; empty if absent or null. Other items are reported and left out. */
  mappings(name: string): MappingNode[] {
    const field = this.#fields.get(name);
    if (field === undefined) return [];
    for (const node of [...field.overridden, field.value]) {
      if (node.kind === "sequence" || isNull(node)) continue;
      const hint = node.kind === "mapping" ? "Begin each item with '- '." : undefined;
      this.log.wrong(node, `${name}: expected a list`, hint);
    }
    const items = field.value.kind === "sequence" ? field.value.items : [];
    const mappings: MappingNode[] = [];
    for (const item of items) {
      if (item.kind === "mapping") mappings.push(item);
      else this.log.wrong(item, `${name}: each item must be a mapping of keys`);
    }
    return mappings;
  }
}

/** True for null in any spelling. */
export function isNull(node: SourceNode): boolean {
  return node.kind === "scalar" && node.value.type === "null";
}

/** The text of a key; one-byte if it is binary. A key of another type is reported, and the result is undefined. */
export function shownKeyOf(key: ScalarNode, log: ProblemLog): string | undefined {
  if (key.value.type === "text") return key.text;
  if (key.value.type === "binary") return key.value.bytes;
  const message = `a key must be text, got ${describeSource(key)}, which YAML reads as ${key.value.type}`;
  return log.error(key.at, message, "Put it in quotes if you mean text.");
}

function isKeyOf(section: Section | KnownKeys, name: string, entry: MappingEntry, log: ProblemLog): boolean {
  const isOfRules = typeof section === "string";
  const { keys: known, title } = isOfRules ? SECTIONS[section] : section;
  if (known.includes(name)) return true;
  const home = isOfRules ? homeOf(name) : undefined;
  const at = entry.key.at;
  // The name of a control plane's resource, in a dump.
  if (section === "file" && name === "name") return false;
  if (isOfRules && REFERENCE_KEYS.has(name) && REFERENCE_SECTIONS.has(section)) {
    const move = home === undefined ? "" : `; it belongs ${SECTIONS[home].home}`;
    log.warn(at, `'${name}' is ignored ${title}${move}`);
    return false;
  }
  if (home !== undefined && home !== section) {
    log.error(at, `'${name}' is not allowed ${title}`, `It belongs ${SECTIONS[home].home}.`);
  } else {
    const hint = suggestionFor(name, known);
    const words = hint === undefined ? `; expected one of ${known.join(", ")}` : "";
    log.error(at, `unknown key '${name}' ${title}${words}`, hint);
  }
  return false;
}

/**
 * Reports numbers that YAML reads as a fraction or beyond 64 bits, whose text the reference's parser would change. True
 * if so.
 */
function refuseFloat(node: ScalarNode, log: ProblemLog): boolean {
  const { type } = node.value;
  if (type !== "float" && type !== "large integer") return false;
  const what = type === "float" ? "a decimal number" : "a number beyond 64 bits";
  log.error(
    node.at,
    `YAML reads ${describeSource(node)} as ${what}, which is not allowed here`,
    "Put it in quotes if you mean text.",
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
    const fields = new Fields("file", [root], log);
    const domain = fields.text("domain") ?? "";
    const field = fields.given(name);
    if (field !== undefined) yield { domain, field };
  }
}

/** One-byte text of a scalar that is not null, of at most ENTRY_BYTES_MAX bytes. `name` names it in the error. */
export function textOfNode(name: string, node: SourceNode, log: ProblemLog): string | undefined {
  if (node.kind !== "scalar" || node.value.type === "null") return log.wrong(node, `${name}: expected text`);
  if (refuseFloat(node, log)) return undefined;
  const text = node.value.type === "binary" ? node.value.bytes : oneByteOf(node.text);
  if (text.length <= ENTRY_BYTES_MAX) return text;
  const message = `${name}: expected at most ${ENTRY_BYTES_MAX} bytes, as calls may have, got ${text.length}`;
  return log.error(node.at, message);
}

function flagOf(name: string, node: SourceNode, log: ProblemLog): boolean {
  if (node.kind === "scalar" && node.value.type === "boolean") return node.value.boolean;
  if (isNull(node)) return false;
  const isWord = node.kind === "scalar" && /^(y|yes|on|true|1|n|no|off|false|0)$/i.test(node.text);
  const hint = isWord ? `Write ${/^(y|yes|on|true|1)$/i.test(node.text)} without quotes.` : undefined;
  log.wrong(node, `${name}: expected true or false`, hint);
  return false;
}

function wholeOf(name: string, node: SourceNode, min: number, max: number, log: ProblemLog): number | undefined {
  if (isNull(node)) return undefined;
  const value = node.kind === "scalar" ? node.value : undefined;
  if (value?.type === "integer" && value.number >= min && value.number <= max) return value.number;
  const isQuotedNumber = node.kind === "scalar" && node.isQuoted && /^\d+$/.test(node.text);
  const hint = isQuotedNumber ? "Write it without quotes." : undefined;
  return log.wrong(node, `${name}: expected a whole number from ${min} to ${max}`, hint);
}

const LIMITS_HINT = "A list of limits goes under 'rate_limits'.";

/** One scalar, or the scalars of a list. An empty list and other items are reported. */
export function readScalars(field: Field, log: ProblemLog): ScalarNode[] {
  const nodes = field.value.kind === "sequence" ? field.value.items : [field.value];
  if (nodes.length === 0) log.error(field.value.at, `${field.name}: the list is empty, so nothing can match`);
  const scalars: ScalarNode[] = [];
  for (const node of nodes) {
    if (node.kind === "scalar" && node.value.type !== "null") scalars.push(node);
    else log.wrong(node, `${field.name}: expected text`);
  }
  return scalars;
}

// For the reference, `null`, `~` and nothing mean that the section is absent, but Null and NULL mean an empty section.
function isAbsent(node: SourceNode): boolean {
  return node.kind === "scalar" && node.value.type === "null" && !/^N/.test(node.text);
}
