// Reads mappings of a file of cases, by the readers of rule files: known keys, and values of few kinds. Every problem is reported at
// its place.

import {
  type Field,
  Fields,
  isNull,
  readMappings,
  readScalars,
  readSwitch,
  readWhole,
  readWord,
} from "../../../engine/rules/fields.ts";
import { describeSource, type ProblemLog } from "../../../engine/rules/problems.ts";
import type { MappingNode, ScalarNode, SourceNode } from "../../../engine/rules/source.ts";
import { suggest } from "../../../engine/rules/suggest.ts";
import { parseGoDuration } from "../../../process/settings/value-types.ts";

/** Ten years: longer than any window. */
const DURATION_US_MAX = 315_360_000_000_000;

/** The values of a mapping by their keys. An absent value and null are undefined. */
export class CaseFields extends Fields {
  readonly log: ProblemLog;

  /** `title` names the mapping in messages, as the end of a sentence. */
  constructor(node: MappingNode, known: readonly string[], title: string, log: ProblemLog) {
    const fields = new Map<string, Field>();
    for (const { key, value } of node.entries) {
      if (!known.includes(key.text)) {
        const hint = suggest(key.text, known);
        const words = hint === undefined ? `; expected one of ${known.join(", ")}` : "";
        log.error(key.at, `unknown key '${key.text}' ${title}${words}`, hint);
      } else fields.set(key.text, { name: key.text, keyAt: key.at, value, overridden: [] });
    }
    super(node.at, fields, false);
    this.log = log;
  }

  value(name: string): SourceNode | undefined {
    return this.given(name)?.value;
  }

  text(name: string): string | undefined {
    const node = this.value(name);
    return node === undefined ? undefined : textOf(node, name, this.log);
  }

  whole(name: string, min: number, max: number): number | undefined {
    return readWhole(this, name, { min, max }, this.log);
  }

  flag(name: string): boolean {
    return readSwitch(this, name, this.log);
  }

  /** Microseconds of a duration. */
  duration(name: string): number | undefined {
    const node = this.value(name);
    if (node === undefined) return undefined;
    const us = node.kind === "scalar" ? parseGoDuration(node.text) : undefined;
    if (us !== undefined && us <= DURATION_US_MAX) return us;
    const expected = "a duration such as 100ms, 1.5s or 2h, at most ten years";
    this.log.error(node.at, `${name}: expected ${expected}, got ${describeSource(node)}`);
    return undefined;
  }

  /** One of the words. */
  word<const T extends string>(name: string, words: readonly T[]): T | undefined {
    const index = readWord(this, name, words, this.log);
    return index === undefined ? undefined : words[index];
  }

  /** The mappings of a list; empty if absent. */
  mappings(name: string): readonly MappingNode[] {
    return readMappings(this.given(name), this.log);
  }

  /** Texts of a mapping by their keys; null stays null. Empty if absent. */
  texts(name: string): ReadonlyMap<string, string | null> {
    const node = this.value(name);
    const mapping = node === undefined ? undefined : mappingOf(node, name, this.log);
    return new Map(
      mapping?.entries.map(({ key, value }) => [
        key.text,
        isNull(value) ? null : (textOf(value, key.text, this.log) ?? ""),
      ]),
    );
  }

  /** A text, or a list of texts; all must fit. */
  list(name: string, expected = "text", fits = (_: ScalarNode) => true): readonly string[] | undefined {
    const field = this.given(name);
    if (field === undefined) return undefined;
    return readScalars(field, this.log).map((node) => {
      if (!fits(node)) this.log.error(node.at, `${name}: expected ${expected}, got ${describeSource(node)}`);
      return node.text;
    });
  }
}

/** The node if it is a mapping; otherwise undefined, and the problem is reported. */
export function mappingOf(node: SourceNode, name: string, log: ProblemLog): MappingNode | undefined {
  if (node.kind === "mapping") return node;
  log.error(node.at, `${name}: expected a mapping of keys, got ${describeSource(node)}`);
  return undefined;
}

/** The text of a scalar as it is written; otherwise undefined, and the problem is reported. */
export function textOf(node: SourceNode, name: string, log: ProblemLog): string | undefined {
  if (node.kind === "scalar") return node.text;
  log.error(node.at, `${name}: expected text, got ${describeSource(node)}`);
  return undefined;
}
