// Reads mappings of a file of cases, by the readers of rule files: known keys, and values of few kinds. Every problem
// is reported at its place.

import { doubtOf, readTyped } from "../../../engine/domain/entry-text.ts";
import type { WrittenEntry } from "../../../engine/domain/request.ts";
import { Fields, isNull, readScalars } from "../../../engine/rules/fields.ts";
import type { ProblemLog } from "../../../engine/rules/problems.ts";
import type { MappingNode, ScalarNode, SourceNode } from "../../../engine/rules/source.ts";
import { parseGoDuration } from "../../../settings/value-types.ts";

/** Ten years: longer than any window. */
const DURATION_US_MAX = 315_360_000_000_000;

/** The values of a mapping by their keys. An absent value and null are undefined. */
export class CaseFields extends Fields {
  /** `title` names the mapping in messages, as the end of a sentence. */
  constructor(node: MappingNode, keys: readonly string[], title: string, log: ProblemLog) {
    super({ keys, title }, [node], log);
  }

  value(name: string): SourceNode | undefined {
    return this.given(name)?.value;
  }

  /** The text as it is written. */
  override text(name: string): string | undefined {
    const node = this.value(name);
    return node === undefined ? undefined : textField(node, name, this.log);
  }

  /** Microseconds of a duration. */
  duration(name: string): number | undefined {
    const node = this.value(name);
    if (node === undefined) return undefined;
    const us = node.kind === "scalar" ? parseGoDuration(node.text) : undefined;
    if (us !== undefined && us <= DURATION_US_MAX) return us;
    return this.log.wrong(node, `${name}: expected a duration such as 100ms, 1.5s or 2h, at most ten years`);
  }

  /** Texts of a mapping by their keys; null stays null. Empty if absent. */
  texts(name: string): ReadonlyMap<string, string | null> {
    const node = this.value(name);
    const mapping = node === undefined ? undefined : mappingField(node, name, this.log);
    return new Map(
      mapping?.entries.map(({ key, value }) => [
        key.text,
        isNull(value) ? null : (textField(value, key.text, this.log) ?? ""),
      ]),
    );
  }

  /** A text, or a list of texts; all must fit. */
  list(name: string, expected = "text", fits = (_: ScalarNode) => true): readonly string[] | undefined {
    const field = this.given(name);
    if (field === undefined) return undefined;
    return readScalars(field, this.log).map((node) => {
      if (!fits(node)) this.log.wrong(node, `${name}: expected ${expected}`);
      return node.text;
    });
  }
}

/** The node if it is a mapping; otherwise undefined, and the problem is reported. */
export function mappingField(node: SourceNode, name: string, log: ProblemLog): MappingNode | undefined {
  if (node.kind === "mapping") return node;
  return log.wrong(node, `${name}: expected a mapping of keys`);
}

/** The entries of a descriptor: `key=value,key2=value2` as `ask` takes it, or a mapping of keys to values. */
export function readDescriptorText(node: SourceNode, name: string, log: ProblemLog): readonly WrittenEntry[] {
  if (node.kind === "mapping")
    return node.entries.map(({ key, value }) => ({ key: key.text, value: textField(value, key.text, log) ?? "" }));
  const entries = readTyped(textField(node, name, log) ?? "");
  if (typeof entries === "string") {
    log.error(node.at, `${name}: ${entries}`);
    return [];
  }
  const doubt = doubtOf(entries);
  if (doubt !== undefined) log.warn(node.at, `${name}: ${doubt}`);
  return entries;
}

/** The text of a scalar as it is written; otherwise undefined, and the problem is reported. */
export function textField(node: SourceNode, name: string, log: ProblemLog): string | undefined {
  if (node.kind === "scalar") return node.text;
  return log.wrong(node, `${name}: expected text`);
}
