// Packs a parsed file into one array of numbers and one text, to pass it between threads. Both arrive at once, while
// cloning an object per node would block the receiver as long as parsing took. engine/rules/source.ts defines the
// nodes.

import type { LongWork } from "../../base/long-work.ts";
import { refusedFile } from "../../engine/rules/problems.ts";
import type { ScalarValue } from "../../engine/rules/scalar.ts";
import { NODES_FAULT, NODES_MAX } from "../../engine/rules/schema.ts";
import type { MappingEntry, Place, Problem, ScalarNode, SourceFile, SourceNode } from "../../engine/rules/source.ts";

/** A packed SourceFile. `numbers` is empty if the file has no tree. */
export interface PackedFile {
  readonly name: string;
  /** True for a resource. The paths of its nodes are computed when it is unpacked. */
  readonly isResource: boolean;
  readonly problems: readonly Problem[];
  readonly numbers: Float64Array<ArrayBuffer>;
  readonly texts: string;
  /** Number of nodes, each alias counted with its target. */
  readonly nodes: number;
}

// A node begins in `numbers` with its kind, then line and column, then the data of the kind. A node that aliases place
// several times is packed once; its other places hold its number.
const Kind = { scalar: 0, sequence: 1, mapping: 2, again: 3 } as const;

const VALUE_TYPES = ["null", "text", "boolean", "integer", "large integer", "float", "binary"] as const;

/** Nodes that `unpackFile` reads between two yields. */
const NODES_PER_STEP = 256;

/** Packs a file at once. The time grows with the tree, so large files are packed in the worker thread. */
export function packFile({ name, isResource = false, root, problems }: SourceFile): PackedFile {
  const numbers: number[] = [];
  const texts: string[] = [];
  /** The number of each node so far, and the size of each with all below it. */
  const known = new Map<SourceNode, number>();
  const sizes: number[] = [];
  let nodes = 0;
  const addText = (text: string) => {
    numbers.push(text.length);
    texts.push(text);
  };
  const addScalar = ({ isQuoted, text, value }: ScalarNode) => {
    numbers.push(isQuoted ? 1 : 0);
    addText(text);
    numbers.push(VALUE_TYPES.indexOf(value.type));
    if (value.type === "boolean") numbers.push(value.boolean ? 1 : 0);
    else if (value.type === "binary") addText(value.bytes);
    else if ("number" in value) numbers.push(value.number);
  };
  // Recursive, because the parsers bound the depth.
  const add = (node: SourceNode) => {
    const number = known.get(node);
    if (number !== undefined) {
      numbers.push(Kind.again, number);
      nodes += sizes[number] ?? 0;
      return;
    }
    const own = known.size;
    known.set(node, own);
    const before = nodes++;
    numbers.push(Kind[node.kind], node.at.line, node.at.column);
    if (node.kind === "scalar") addScalar(node);
    else if (node.kind === "sequence") {
      numbers.push(node.items.length);
      for (const item of node.items) add(item);
    } else {
      numbers.push(node.entries.length);
      for (const { key, value, isMerged } of node.entries) {
        numbers.push(isMerged ? 1 : 0);
        add(key);
        add(value);
      }
    }
    sizes[own] = nodes - before;
  };
  if (root !== undefined) add(root);
  return { name, isResource, problems, numbers: Float64Array.from(numbers), texts: texts.join(""), nodes };
}

/** Packed files that are compiled together. They are counted here, before their trees are made. */
export class PackedSet {
  #files: PackedFile[] = [];
  #nodesLeft: number;

  constructor(nodesMax = NODES_MAX) {
    this.#nodesLeft = nodesMax;
  }

  /**
   * The files so far; once there are too many nodes, only the one that exceeds the bound, with a problem in place of
   * its tree.
   */
  get files(): readonly PackedFile[] {
    return this.#files;
  }

  /** How many nodes further files may have; below 0 once there are too many. */
  get nodesLeft(): number {
    return this.#nodesLeft;
  }

  add(file: PackedFile): void {
    if (this.#nodesLeft < 0) return;
    const wasRefused = file.problems.some(({ message }) => message === NODES_FAULT);
    this.#nodesLeft -= wasRefused ? Number.POSITIVE_INFINITY : file.nodes;
    if (this.#nodesLeft >= 0) this.#files.push(file);
    else this.#files = [wasRefused ? file : packFile(refusedFile(file.name, file.isResource, NODES_FAULT))];
  }

  /** Unpacks and forgets all files. */
  *unpack(): LongWork<SourceFile[]> {
    const sources: SourceFile[] = [];
    this.#files.reverse();
    for (let file = this.#files.pop(); file !== undefined; file = this.#files.pop()) {
      sources.push(yield* unpackFile(file));
      yield;
    }
    return sources;
  }
}

/** Unpacks a file in steps. `packed` must come from `packFile`; it is not checked. */
function* unpackFile(packed: PackedFile): LongWork<SourceFile> {
  const { name, isResource, problems, numbers } = packed;
  const about = isResource ? { name, isResource, problems } : { name, problems };
  if (numbers.length === 0) return { ...about, root: undefined };
  const root = yield* new Unpacker(packed).read(isResource ? new ResourcePlace(name, undefined, "") : undefined);
  return { ...about, root };
}

/**
 * A place in a resource. There may be millions and few are ever shown, so the path is computed only when it is read.
 */
class ResourcePlace implements Place {
  readonly file: string;
  readonly #parent: Place | undefined;
  readonly #step: string | number;

  constructor(file: string, parent: Place | undefined, step: string | number) {
    this.file = file;
    this.#parent = parent;
    this.#step = step;
  }

  get line(): number {
    return 0;
  }

  get column(): number {
    return 0;
  }

  get path(): string {
    const above = this.#parent?.path ?? "";
    if (typeof this.#step === "number") return `${above}[${this.#step}]`;
    return above === "" ? this.#step : `${above}.${this.#step}`;
  }
}

const VALUES: Readonly<Record<"null" | "text", ScalarValue>> = { null: { type: "null" }, text: { type: "text" } };

class Unpacker {
  readonly #packed: PackedFile;
  readonly #nodes: SourceNode[] = [];
  #reads = 0;
  #at = 0;
  #textAt = 0;

  constructor(packed: PackedFile) {
    this.#packed = packed;
  }

  /**
   * Reads a node with all below it. `place` is its own in a resource, or its mapping's if it is a key; in a file places
   * are packed.
   */
  *read(place: Place | undefined, isKey = false): LongWork<SourceNode> {
    if (++this.#reads % NODES_PER_STEP === 0) yield;
    const kind = this.#number();
    if (kind === Kind.again) return this.#nodes[this.#number()] as SourceNode;
    const { name } = this.#packed;
    const [line, column, count] = [this.#number(), this.#number(), this.#number()];
    const at = place ?? { file: name, line, column };
    if (kind === Kind.scalar) {
      const text = this.#text();
      const ofKey = isKey && place !== undefined ? new ResourcePlace(name, place, text) : at;
      const node: ScalarNode = { kind: "scalar", at: ofKey, text, isQuoted: count === 1, value: this.#value() };
      this.#nodes.push(node);
      return node;
    }
    if (kind === Kind.sequence) {
      const items: SourceNode[] = [];
      const node: SourceNode = { kind: "sequence", at, items };
      this.#nodes.push(node);
      for (let i = 0; i < count; i++) items.push(yield* this.read(place && new ResourcePlace(name, place, i)));
      return node;
    }
    const entries: MappingEntry[] = [];
    const node: SourceNode = { kind: "mapping", at, entries };
    this.#nodes.push(node);
    for (let i = 0; i < count; i++) {
      const isMerged = this.#number() === 1;
      const key = (yield* this.read(place, true)) as ScalarNode;
      // A value has the same place as its key.
      entries.push({ key, value: yield* this.read(place && key.at), isMerged });
    }
    return node;
  }

  #value(): ScalarValue {
    const type = VALUE_TYPES[this.#number()] ?? "null";
    if (type === "null" || type === "text") return VALUES[type];
    if (type === "boolean") return { type, boolean: this.#number() === 1 };
    if (type === "binary") return { type, bytes: this.#text() };
    return { type, number: this.#number() };
  }

  #number(): number {
    return this.#packed.numbers[this.#at++] as number;
  }

  #text(): string {
    const length = this.#number();
    const text = this.#packed.texts.slice(this.#textAt, this.#textAt + length);
    this.#textAt += length;
    return text;
  }
}
