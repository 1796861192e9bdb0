// Converts a YAML document into the tree that engine/rules compiles: resolves scalars, follows aliases, applies merge
// keys in the order written. Bounded against hostile files.

import { type Alias, isAlias, isMap, isScalar, isSeq, type Node, type Scalar, type YAMLMap } from "yaml";
import { makeProblem } from "../../engine/rules/problems.ts";
import { resolveScalar } from "../../engine/rules/scalar.ts";
import { NODES_FAULT } from "../../engine/rules/schema.ts";
import type { MappingEntry, Place, Problem, ScalarNode, SourceNode } from "../../engine/rules/source.ts";

/** Deepest nesting of mappings and lists; about 80 levels of rules. */
export const DEPTH_MAX = 400;

interface Converted {
  readonly node: SourceNode;
  /** Number of nodes in it, with the target of each alias counted again. */
  readonly size: number;
}

/** Converts one document; its mistakes are in `problems`. */
export class TreeConverter {
  readonly problems: Problem[] = [];
  readonly #placeOf: (offset: number) => Place;
  /** The node of each anchor so far; undefined while that node is being converted. */
  readonly #anchors = new Map<string, Converted | undefined>();
  readonly #openEnd: number;
  readonly #nodesMax: number;
  #size = 0;

  /** `openEnd`: the length of the text if it does not end in a line feed, else Infinity. */
  constructor(placeOf: (offset: number) => Place, openEnd: number, nodesMax: number) {
    this.#placeOf = placeOf;
    this.#openEnd = openEnd;
    this.#nodesMax = nodesMax;
  }

  convertRoot(contents: unknown): SourceNode {
    return this.#convert(contents, 0, 0);
  }

  #convert(node: unknown, offset: number, depth: number): SourceNode {
    const at = this.#placeOf(rangeStart(node) ?? offset);
    if (this.#grow(1, at) || depth > DEPTH_MAX) {
      if (depth > DEPTH_MAX) this.#error(at, `nested deeper than ${DEPTH_MAX} levels`);
      return emptyScalar(at);
    }
    if (isAlias(node)) return this.#followAlias(node, at);
    const anchor = anchorOf(node);
    const sizeBefore = this.#size - 1;
    if (anchor !== undefined) this.#anchors.set(anchor, undefined);
    const converted = this.#convertContent(node, at, depth);
    if (anchor !== undefined) this.#anchors.set(anchor, { node: converted, size: this.#size - sizeBefore });
    return converted;
  }

  #convertContent(node: unknown, at: Place, depth: number): SourceNode {
    const offset = rangeStart(node) ?? 0;
    if (isMap(node)) return { kind: "mapping", at, entries: this.#entriesOf(node, depth) };
    if (isSeq(node)) {
      const items = node.items.map((item) => this.#convert(item, offset, depth + 1));
      return { kind: "sequence", at, items };
    }
    if (!isScalar(node)) return emptyScalar(at);
    const text = this.#textOf(node);
    const isQuoted = node.type !== undefined && node.type !== "PLAIN";
    const value = resolveScalar(text, node.tag ?? "", isQuoted);
    if (typeof value !== "string") return { kind: "scalar", at, text, isQuoted, value };
    this.#error(at, value);
    return emptyScalar(at);
  }

  // The parser adds a line feed to a block scalar at the end of a file without one; the reference does not.
  #textOf(node: Scalar): string {
    const text = node.source ?? "";
    const isCut = node.type?.startsWith("BLOCK") === true && (node.range?.[1] ?? 0) >= this.#openEnd;
    return isCut && text.endsWith("\n") ? text.slice(0, -1) : text;
  }

  #entriesOf(map: YAMLMap, depth: number): MappingEntry[] {
    const entries: MappingEntry[] = [];
    for (const pair of map.items) {
      const offset = rangeStart(pair.key) ?? rangeStart(map) ?? 0;
      if (isMergeKey(pair.key)) {
        this.#merge(pair.value, offset, entries, depth);
        continue;
      }
      const key = this.#convert(pair.key, offset, depth + 1);
      const value = this.#convert(pair.value, offset, depth + 1);
      if (key.kind === "scalar") entries.push({ key, value, isMerged: false });
      else this.#error(key.at, `a key must be text, got a ${key.kind === "mapping" ? "mapping" : "list"}`);
    }
    return entries;
  }

  // Earlier mappings of a list override later ones, so they are applied last.
  #merge(value: unknown, offset: number, entries: MappingEntry[], depth: number): void {
    const problemsBefore = this.problems.length;
    const merged = this.#convert(value, offset, depth + 1);
    if (this.problems.length > problemsBefore) return;
    const isList = isSeq(value);
    const mappings = merged.kind === "sequence" && isList ? merged.items.toReversed() : [merged];
    for (const mapping of mappings) {
      if (mapping.kind === "mapping") entries.push(...mapping.entries.map((entry) => ({ ...entry, isMerged: true })));
      else this.#error(mapping.at, "the merge key << needs a mapping, or a list of mappings");
    }
  }

  #followAlias(alias: Alias, at: Place): SourceNode {
    if (!this.#anchors.has(alias.source)) {
      const message = `the alias *${alias.source} has no anchor &${alias.source} before it`;
      this.problems.push(makeProblem("error", at, message, "Put text that begins with * in quotes."));
      return emptyScalar(at);
    }
    const target = this.#anchors.get(alias.source);
    if (target === undefined) {
      this.#error(at, `the anchor &${alias.source} contains itself`);
      return emptyScalar(at);
    }
    return this.#grow(target.size, at) ? emptyScalar(at) : target.node;
  }

  /** Counts nodes; true once there are more than allowed, which is reported once. */
  #grow(nodes: number, at: Place): boolean {
    const wasFull = this.#size > this.#nodesMax;
    this.#size += nodes;
    if (this.#size <= this.#nodesMax) return false;
    if (!wasFull) this.#error(at, NODES_FAULT);
    return true;
  }

  #error(at: Place, message: string): void {
    this.problems.push(makeProblem("error", at, message));
  }
}

function isMergeKey(key: unknown): boolean {
  if (!isScalar(key) || key.source !== "<<") return false;
  if (key.tag === "tag:yaml.org,2002:merge") return true;
  return (key.tag ?? "") === "" && (key.type === undefined || key.type === "PLAIN");
}

function rangeStart(node: unknown): number | undefined {
  return isAlias(node) || isScalar(node) || isMap(node) || isSeq(node) ? (node as Node).range?.[0] : undefined;
}

function anchorOf(node: unknown): string | undefined {
  return isScalar(node) || isMap(node) || isSeq(node) ? node.anchor : undefined;
}

/** The null of a place where nothing is written. */
export function emptyScalar(at: Place): ScalarNode {
  return { kind: "scalar", at, text: "", isQuoted: false, value: { type: "null" } };
}
