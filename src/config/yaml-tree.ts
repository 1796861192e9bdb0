// YAML text to the tree that rules/ compiles, read as the reference service's parser reads it: first document only, YAML
// 1.1 scalars, merge keys in the order written. Bounded against files made to be expensive.

import {
  type Alias,
  Composer,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  Parser,
  type YAMLMap,
} from "yaml";
import { makeProblem } from "../rules/problems.ts";
import type { Problem } from "../rules/rule-set.ts";
import { resolveScalar } from "../rules/scalar.ts";
import type { MappingEntry, Place, ScalarNode, SourceFile, SourceNode } from "../rules/source.ts";

/** Deepest nesting of mappings and lists; some 80 levels of rules. */
export const DEPTH_MAX = 400;

/** Most nodes of one file once its aliases are written out. */
export const NODES_MAX = 400_000;

/** Parses one file. Never throws: what can't be parsed is in `problems`, and `root` is undefined then. */
export function parseYaml(name: string, text: string): SourceFile {
  const lines = new LineCounter();
  const placeOf = (offset: number): Place => {
    const { line, col } = lines.linePos(Math.max(0, offset));
    return { file: name, line: Math.max(1, line), column: Math.max(1, col) };
  };
  const fail = (problems: Problem[]): SourceFile => ({ name, root: undefined, problems });
  const control = findControlCharacter(text);
  if (control !== undefined) {
    const code = text.charCodeAt(control).toString(16).padStart(2, "0");
    return fail([
      makeProblem(
        "error",
        placeInText(name, text, control),
        `a control character (0x${code}) can't stand in YAML`,
        undefined,
      ),
    ]);
  }
  const document = composeFirst(text, lines);
  if (document === undefined) return { name, root: emptyScalar(placeOf(0)), problems: [] };
  const errors = document.errors.map((error) =>
    makeProblem("error", placeOf(error.pos[0]), `YAML: ${sentence(error.message)}`, undefined),
  );
  if (errors.length > 0) return fail(errors);
  const converter = new Converter(placeOf);
  const root = converter.convertRoot(document.contents);
  return converter.problems.length > 0 ? fail(converter.problems) : { name, root, problems: [] };
}

// What follows the first document is not looked at, as in the reference, so a broken second one does no harm.
function composeFirst(text: string, lines: LineCounter): Document.Parsed | undefined {
  const composer = new Composer({
    schema: "failsafe",
    resolveKnownTags: false,
    uniqueKeys: false,
    strict: false,
    prettyErrors: false,
    logLevel: "silent",
  });
  let hasDocument = false;
  for (const token of new Parser(lines.addNewLine).parse(text)) {
    if (hasDocument && (token.type === "document" || token.type === "directive")) break;
    if (token.type === "document") hasDocument = true;
    for (const document of composer.next(token)) return document as Document.Parsed;
  }
  for (const document of composer.end(true, text.length)) return document as Document.Parsed;
  return undefined;
}

interface Converted {
  readonly node: SourceNode;
  /** Nodes in it, aliases written out. */
  readonly size: number;
}

/** Converts one document; `problems` holds what was wrong with it. */
class Converter {
  readonly problems: Problem[] = [];
  readonly #placeOf: (offset: number) => Place;
  /** What each anchor means so far; undefined while its own node is being converted. */
  readonly #anchors = new Map<string, Converted | undefined>();
  #size = 0;

  constructor(placeOf: (offset: number) => Place) {
    this.#placeOf = placeOf;
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
      return { kind: "sequence", at, items: node.items.map((item) => this.#convert(item, offset, depth + 1)) };
    }
    if (!isScalar(node)) return emptyScalar(at);
    const text = node.source ?? "";
    const isQuoted = node.type !== undefined && node.type !== "PLAIN";
    const value = resolveScalar(text, node.tag ?? "", isQuoted);
    if (typeof value !== "string") return { kind: "scalar", at, text, isQuoted, value };
    this.#error(at, value);
    return emptyScalar(at);
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

  // Earlier mappings of a list take precedence over later ones, so they are applied last.
  #merge(value: unknown, offset: number, entries: MappingEntry[], depth: number): void {
    const merged = this.#convert(value, offset, depth + 1);
    const isList = isSeq(value);
    const mappings = merged.kind === "sequence" && isList ? merged.items.toReversed() : [merged];
    for (const mapping of mappings) {
      if (mapping.kind === "mapping") entries.push(...mapping.entries.map((entry) => ({ ...entry, isMerged: true })));
      else this.#error(mapping.at, "the merge key << needs a mapping, or a list of mappings");
    }
  }

  #followAlias(alias: Alias, at: Place): SourceNode {
    if (!this.#anchors.has(alias.source)) {
      this.#error(at, `the alias *${alias.source} has no anchor &${alias.source} before it`);
      return emptyScalar(at);
    }
    const target = this.#anchors.get(alias.source);
    if (target === undefined) {
      this.#error(at, `the anchor &${alias.source} contains itself`);
      return emptyScalar(at);
    }
    return this.#grow(target.size, at) ? emptyScalar(at) : target.node;
  }

  /** Counts nodes; true once there are too many. */
  #grow(nodes: number, at: Place): boolean {
    const wasFull = this.#size > NODES_MAX;
    this.#size += nodes;
    if (this.#size <= NODES_MAX) return false;
    if (!wasFull) this.#error(at, `the file has more than ${NODES_MAX} nodes once its aliases are written out`);
    return true;
  }

  #error(at: Place, message: string): void {
    this.problems.push(makeProblem("error", at, message, undefined));
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

function emptyScalar(at: Place): ScalarNode {
  return { kind: "scalar", at, text: "", isQuoted: false, value: { type: "null" } };
}

function sentence(message: string): string {
  return message.charAt(0).toLowerCase() + message.slice(1);
}

// Tab, line feed, carriage return, NEL and everything printable; surrogates come in pairs because the bytes were UTF-8.
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding these is the purpose
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f\ufffe\uffff]/;

function findControlCharacter(text: string): number | undefined {
  const found = text.search(CONTROL);
  return found < 0 ? undefined : found;
}

function placeInText(file: string, text: string, offset: number): Place {
  const before = text.slice(0, offset).split(/\r\n|\r|\n/);
  return { file, line: before.length, column: (before.at(-1) ?? "").length + 1 };
}
