// Packs a parsed file into one array of numbers and one text, to pass it between threads. Both arrive at once, while cloning an object
// per node would block the receiver as long as parsing took. engine/rules/source.ts defines the nodes.

import type { LongWork } from "../../engine/base/long-work.ts";
import type { Problem } from "../../engine/rules/rule-set.ts";
import type { ScalarValue } from "../../engine/rules/scalar.ts";
import type { MappingEntry, Place, ScalarNode, SourceFile, SourceNode } from "../../engine/rules/source.ts";

/** A packed SourceFile. `numbers` is empty if the file has no tree. */
export interface PackedFile {
  readonly name: string;
  /** True for a resource. The paths of its nodes are computed when it is unpacked. */
  readonly isResource: boolean;
  readonly problems: readonly Problem[];
  readonly numbers: Float64Array<ArrayBuffer>;
  readonly texts: string;
}

// A node begins in `numbers` with its kind, then line and column, then the data of the kind. A node that aliases place several times is
// packed once; its other places hold its number.
const Kind = { scalar: 0, sequence: 1, mapping: 2, again: 3 } as const;

const VALUE_TYPES = ["null", "text", "boolean", "integer", "large integer", "float", "binary"] as const;

/** Nodes that `unpackFile` reads between two yields. */
const NODES_PER_STEP = 256;

/** Packs a file at once. The time grows with the tree, so large files are packed in the worker thread. */
export function packFile({ name, isResource = false, root, problems }: SourceFile): PackedFile {
  const packer = new Packer();
  if (root !== undefined) packer.add(root);
  return { name, isResource, problems, numbers: Float64Array.from(packer.numbers), texts: packer.texts.join("") };
}

class Packer {
  readonly numbers: number[] = [];
  readonly texts: string[] = [];
  readonly #known = new Map<SourceNode, number>();

  // Recursive, because the parsers bound the depth.
  add(node: SourceNode): void {
    const known = this.#known.get(node);
    if (known !== undefined) {
      this.numbers.push(Kind.again, known);
      return;
    }
    this.#known.set(node, this.#known.size);
    const { line, column } = node.at;
    if (node.kind === "scalar") {
      this.numbers.push(Kind.scalar, line, column, node.isQuoted ? 1 : 0);
      this.#addText(node.text);
      this.#addValue(node.value);
    } else if (node.kind === "sequence") {
      this.numbers.push(Kind.sequence, line, column, node.items.length);
      for (const item of node.items) this.add(item);
    } else {
      this.numbers.push(Kind.mapping, line, column, node.entries.length);
      for (const { key, value, isMerged } of node.entries) {
        this.numbers.push(isMerged ? 1 : 0);
        this.add(key);
        this.add(value);
      }
    }
  }

  #addText(text: string): void {
    this.numbers.push(text.length);
    this.texts.push(text);
  }

  #addValue(value: ScalarValue): void {
    this.numbers.push(VALUE_TYPES.indexOf(value.type));
    if (value.type === "boolean") this.numbers.push(value.boolean ? 1 : 0);
    else if (value.type === "binary") this.#addText(value.bytes);
    else if ("number" in value) this.numbers.push(value.number);
  }
}

/** Unpacks a file in steps. `packed` must come from `packFile`; it is not checked. */
export function* unpackFile(packed: PackedFile): LongWork<SourceFile> {
  const { name, isResource, problems, numbers } = packed;
  const about = isResource ? { name, isResource, problems } : { name, problems };
  if (numbers.length === 0) return { ...about, root: undefined };
  const unpacker = new Unpacker(packed);
  for (let nodes = 0; !unpacker.isDone; nodes++) {
    unpacker.next();
    if (nodes % NODES_PER_STEP === 0) yield;
  }
  return { ...about, root: unpacker.root };
}

/** A list or mapping that is not complete yet; `left` items or entries are missing. */
type Open =
  | { readonly kind: "sequence"; readonly at: Place; readonly items: SourceNode[]; left: number }
  | {
      readonly kind: "mapping";
      readonly at: Place;
      readonly entries: MappingEntry[];
      left: number;
      isMerged: boolean;
      key: ScalarNode | undefined;
    };

/** A place in a resource. There may be millions and few are ever shown, so the path is computed only when it is read. */
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
  root: SourceNode | undefined;
  readonly #packed: PackedFile;
  readonly #nodes: SourceNode[] = [];
  readonly #open: Open[] = [];
  #at = 0;
  #textAt = 0;

  constructor(packed: PackedFile) {
    this.#packed = packed;
  }

  get isDone(): boolean {
    return this.root !== undefined && this.#open.length === 0;
  }

  /** Reads one node and adds it to its parent. */
  next(): void {
    const parent = this.#open.at(-1);
    if (parent?.kind === "mapping" && parent.key === undefined) parent.isMerged = this.#number() === 1;
    const node = this.#read();
    if (parent === undefined) this.root = node;
    else if (parent.kind === "sequence") {
      parent.items.push(node);
      parent.left--;
    } else if (parent.key === undefined) parent.key = node as ScalarNode;
    else {
      parent.entries.push({ key: parent.key, value: node, isMerged: parent.isMerged });
      parent.key = undefined;
      parent.left--;
    }
    while (this.#open.at(-1)?.left === 0) this.#open.pop();
  }

  #read(): SourceNode {
    const kind = this.#number();
    if (kind === Kind.again) return this.#nodes[this.#number()] as SourceNode;
    const line = this.#number();
    const column = this.#number();
    if (kind === Kind.scalar) return this.#readScalar(line, column);
    return this.#readParent(kind, this.#placeOf(line, column, undefined));
  }

  /** The place of the next node. `keyText` is its text if it is a scalar: for a key, this is the last step of its path. */
  #placeOf(line: number, column: number, keyText: string | undefined): Place {
    const { name: file, isResource } = this.#packed;
    if (!isResource) return { file, line, column };
    const parent = this.#open.at(-1);
    if (parent === undefined) return new ResourcePlace(file, undefined, "");
    if (parent.kind === "sequence") return new ResourcePlace(file, parent.at, parent.items.length);
    // A value has the same place as its key.
    return parent.key?.at ?? new ResourcePlace(file, parent.at, keyText ?? "");
  }

  #readScalar(line: number, column: number): ScalarNode {
    const isQuoted = this.#number() === 1;
    const text = this.#text();
    const at = this.#placeOf(line, column, text);
    const node: ScalarNode = { kind: "scalar", at, text, isQuoted, value: this.#value() };
    this.#nodes.push(node);
    return node;
  }

  #readParent(kind: number, at: Place): SourceNode {
    const left = this.#number();
    if (kind === Kind.sequence) {
      const items: SourceNode[] = [];
      const node: SourceNode = { kind: "sequence", at, items };
      this.#nodes.push(node);
      this.#open.push({ kind: "sequence", at, items, left });
      return node;
    }
    const entries: MappingEntry[] = [];
    const node: SourceNode = { kind: "mapping", at, entries };
    this.#nodes.push(node);
    this.#open.push({ kind: "mapping", at, entries, left, isMerged: false, key: undefined });
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
