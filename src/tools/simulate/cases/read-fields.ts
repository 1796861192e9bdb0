// Reads mappings of a file of cases: known keys, and values of few kinds. Every problem is reported at its place.

import { describeSource, type ProblemLog } from "../../../engine/rules/problems.ts";
import type { MappingNode, SourceNode } from "../../../engine/rules/source.ts";
import { suggest } from "../../../engine/rules/suggest.ts";
import { parseGoDuration } from "../../../process/settings/value-types.ts";

/** Ten years: longer than any window. */
const DURATION_US_MAX = 315_360_000_000_000;

/** The values of a mapping by their keys. */
export class CaseFields {
  readonly log: ProblemLog;
  readonly #values = new Map<string, SourceNode>();

  /** `title` names the mapping in messages, as the end of a sentence. */
  constructor(node: MappingNode, known: readonly string[], title: string, log: ProblemLog) {
    this.log = log;
    for (const { key, value } of node.entries) {
      if (!known.includes(key.text)) {
        const hint = suggest(key.text, known);
        const words = hint === undefined ? `; expected one of ${known.join(", ")}` : "";
        log.error(key.at, `unknown key '${key.text}' ${title}${words}`, hint);
      } else this.#values.set(key.text, value);
    }
  }

  /** The value unless it is absent or null. */
  get(name: string): SourceNode | undefined {
    const node = this.#values.get(name);
    return node?.kind === "scalar" && node.value.type === "null" ? undefined : node;
  }

  text(name: string): string | undefined {
    const node = this.get(name);
    return node === undefined ? undefined : textOf(node, name, this.log);
  }

  whole(name: string, min: number, max: number): number | undefined {
    const node = this.get(name);
    return node === undefined ? undefined : this.#wholeOf(node, name, min, max);
  }

  /** A whole number, or a list of them; undefined if absent. */
  wholes(name: string, min: number, max: number): readonly number[] | undefined {
    return this.#items(name)?.map((node) => this.#wholeOf(node, name, min, max) ?? min);
  }

  flag(name: string): boolean {
    const node = this.get(name);
    if (node === undefined) return false;
    if (node.kind === "scalar" && node.value.type === "boolean") return node.value.boolean;
    this.log.error(node.at, `${name}: expected true or false, got ${describeSource(node)}`);
    return false;
  }

  /** Microseconds of a duration. */
  duration(name: string): number | undefined {
    const node = this.get(name);
    if (node === undefined) return undefined;
    const us = node.kind === "scalar" ? parseGoDuration(node.text) : undefined;
    if (us !== undefined && us <= DURATION_US_MAX) return us;
    this.log.error(
      node.at,
      `${name}: expected a duration such as 100ms, 1.5s or 2h, at most ten years, got ${describeSource(node)}`,
    );
    return undefined;
  }

  /** One of the words. */
  word<const T extends string>(name: string, words: readonly T[]): T | undefined {
    const node = this.get(name);
    return node === undefined ? undefined : this.#wordOf(node, name, words);
  }

  /** One of the words, or a list of them; undefined if absent. */
  words<const T extends string>(name: string, words: readonly T[]): readonly T[] | undefined {
    return this.#items(name)?.flatMap((node) => this.#wordOf(node, name, words) ?? []);
  }

  /** The mappings of a list; empty if absent. */
  mappings(name: string): readonly MappingNode[] {
    const node = this.get(name);
    if (node === undefined) return [];
    if (node.kind !== "sequence") {
      this.log.error(node.at, `${name}: expected a list, got ${describeSource(node)}`);
      return [];
    }
    return node.items.flatMap((item) => mappingOf(item, `an item of ${name}`, this.log) ?? []);
  }

  /** Texts of a mapping by their keys; null stays null. Empty if absent. */
  texts(name: string): ReadonlyMap<string, string | null> {
    const node = this.get(name);
    const mapping = node === undefined ? undefined : mappingOf(node, name, this.log);
    const entries = mapping?.entries ?? [];
    return new Map(
      entries.map(({ key, value }) => {
        const isNull = value.kind === "scalar" && value.value.type === "null";
        return [key.text, isNull ? null : (textOf(value, key.text, this.log) ?? "")];
      }),
    );
  }

  /** A text, or a list of texts; undefined if absent. */
  list(name: string): readonly string[] | undefined {
    return this.#items(name)?.map((item) => textOf(item, name, this.log) ?? "");
  }

  #items(name: string): readonly SourceNode[] | undefined {
    const node = this.get(name);
    if (node === undefined) return undefined;
    return node.kind === "sequence" ? node.items : [node];
  }

  #wholeOf(node: SourceNode, name: string, min: number, max: number): number | undefined {
    const value = node.kind === "scalar" ? node.value : undefined;
    if (value?.type === "integer" && value.number >= min && value.number <= max) return value.number;
    this.log.error(node.at, `${name}: expected a whole number from ${min} to ${max}, got ${describeSource(node)}`);
    return undefined;
  }

  #wordOf<T extends string>(node: SourceNode, name: string, words: readonly T[]): T | undefined {
    const text = node.kind === "scalar" ? node.text : "";
    const found = words.find((word) => word === text);
    if (found === undefined) {
      const message = `${name}: expected one of ${words.join(", ")}, got ${describeSource(node)}`;
      this.log.error(node.at, message, suggest(text, words));
    }
    return found;
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
