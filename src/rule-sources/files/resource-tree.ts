// Converts a RateLimitConfig message (proto/ratelimit) into the tree that rules/ compiles: the same keys as a rules file, without
// defaults beyond those of the protocol. Reads the wire format itself, so that problems can name their place in the resource.

import { isUtf8 } from "node:buffer";
import { RequestError } from "../../engine/base/errors.ts";
import { UNIT_NAMES } from "../../engine/domain/limit.ts";
import { makeProblem } from "../../engine/rules/problems.ts";
import type { ScalarValue } from "../../engine/rules/scalar.ts";
import type {
  MappingNode,
  Place,
  ScalarNode,
  SequenceNode,
  SourceFile,
  SourceNode,
} from "../../engine/rules/source.ts";
import { malformed, WireReader, WireType } from "../../grpc/rls/wire-reader.ts";

/** Most messages nested in each other; protobuf libraries have the same bound. */
const DEPTH_MAX = 100;
/** Longest name of a resource. */
const NAME_LENGTH_MAX = 1_024;

/** Reads one message. Never throws for a malformed one: `problems` says what is wrong. tree-wire.ts gives the nodes their paths. */
export function readResource(value: Buffer): SourceFile {
  const reader = new ResourceReader(value);
  let root: SourceNode | undefined;
  let fault: string | undefined;
  try {
    root = reader.readConfig();
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    fault = error.message;
  }
  const name = `resource ${reader.name === "" ? "without a name" : reader.name}`;
  if (fault === undefined) return { name, isResource: true, root, problems: [] };
  const message = `the message can't be read: ${fault}`;
  const at = { file: name, line: 0, column: 0, path: "" };
  return { name, isResource: true, root: undefined, problems: [makeProblem("error", at, message, undefined)] };
}

// The place of all nodes until tree-wire.ts computes their paths.
const NOWHERE: Place = { file: "", line: 0, column: 0 };

class ResourceReader {
  name = "";
  readonly #bytes: Buffer;
  readonly #wire = new WireReader();

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    this.#wire.open(bytes);
  }

  readConfig(): SourceNode {
    let domain = "";
    const descriptors: SourceNode[] = [];
    this.#eachField(this.#bytes.length, (field) => {
      if (field === 1) this.name = this.#name();
      else if (field === 2) domain = this.#text();
      else if (field === 3) descriptors.push(this.#descriptor(1));
      else return false;
      return true;
    });
    return mapping([
      ["domain", textNode(domain)],
      ["descriptors", sequence(descriptors)],
    ]);
  }

  #descriptor(depth: number): SourceNode {
    const read = { key: "", value: "", limit: undefined as Limit | undefined, metadata: [] as Entries };
    const switches = { shadow_mode: false, detailed_metric: false, quota_mode: false };
    const children: SourceNode[] = [];
    this.#embedded(depth, (field) => {
      if (field === 1) read.key = this.#text();
      else if (field === 2) read.value = this.#text();
      else if (field === 3) read.limit = this.#limit(depth + 1, read.limit);
      else if (field === 4) children.push(this.#descriptor(depth + 1));
      else if (field === 5) switches.shadow_mode = this.#number() !== 0;
      else if (field === 6) switches.detailed_metric = this.#number() !== 0;
      else if (field === 7) switches.quota_mode = this.#number() !== 0;
      else if (field === 8) read.metadata.push(...this.#struct(depth + 1));
      else return false;
      return true;
    });
    const entries: Entries = [["key", textNode(read.key)]];
    if (read.value !== "") entries.push(["value", textNode(read.value)]);
    if (read.limit !== undefined) {
      entries.push(["rate_limit", limitNode(read.limit)]);
      // Gateways set them on every level of a chain; on levels without a limit they have no effect and are dropped.
      for (const [name, isOn] of Object.entries(switches)) if (isOn) entries.push([name, switchNode(true)]);
      if (read.metadata.length > 0) entries.push(["metadata", mapping(read.metadata)]);
    }
    if (children.length > 0) entries.push(["descriptors", sequence(children)]);
    return mapping(entries);
  }

  #limit(depth: number, earlier: Limit | undefined): Limit {
    const limit = earlier ?? { unit: 0, requests: 0, isUnlimited: false, name: "", replaces: [] };
    this.#embedded(depth, (field) => {
      if (field === 1) limit.unit = this.#number();
      else if (field === 2) limit.requests = this.#number();
      else if (field === 3) limit.isUnlimited = this.#number() !== 0;
      else if (field === 4) limit.name = this.#text();
      else if (field === 5) limit.replaces.push(this.#replaced(depth + 1));
      else return false;
      return true;
    });
    return limit;
  }

  #replaced(depth: number): SourceNode {
    let name = "";
    this.#embedded(depth, (field) => {
      if (field !== 1) return false;
      name = this.#text();
      return true;
    });
    return mapping([["name", textNode(name)]]);
  }

  /** A google.protobuf.Struct. In the wire format a map is a repeated message of key and value. */
  #struct(depth: number): Entries {
    const members: Entries = [];
    this.#embedded(depth, (field) => {
      if (field !== 1) return false;
      let key = "";
      let value: SourceNode = nullNode();
      this.#embedded(depth + 1, (part) => {
        if (part === 1) key = this.#text();
        else if (part === 2) value = this.#value(depth + 2);
        else return false;
        return true;
      });
      members.push([key, value]);
      return true;
    });
    return members;
  }

  #value(depth: number): SourceNode {
    let value: SourceNode = nullNode();
    this.#embedded(depth, (field) => {
      if (field === 1) {
        this.#number();
        value = nullNode();
      } else if (field === 2) value = numberNode(this.#double());
      else if (field === 3) value = textNode(this.#text());
      else if (field === 4) value = switchNode(this.#number() !== 0);
      else if (field === 5) value = mapping(this.#struct(depth + 1));
      else if (field === 6) value = this.#list(depth + 1);
      else return false;
      return true;
    });
    return value;
  }

  #list(depth: number): SourceNode {
    const items: SourceNode[] = [];
    this.#embedded(depth, (field) => {
      if (field !== 1) return false;
      items.push(this.#value(depth + 1));
      return true;
    });
    return sequence(items);
  }

  #embedded(depth: number, readField: (field: number) => boolean): void {
    if (depth > DEPTH_MAX) throw malformed(`at most ${DEPTH_MAX} messages inside each other`, this.#wire.position);
    this.#expect(WireType.bytes);
    const outer = this.#wire.end;
    this.#eachField(this.#wire.readEnd(), readField);
    this.#wire.end = outer;
  }

  #tag = 0;

  /** Reads all fields up to `end`. `readField` returns false for an unknown field, which is then skipped. */
  #eachField(end: number, readField: (field: number) => boolean): void {
    this.#wire.end = end;
    while (this.#wire.position < end) {
      const tag = this.#wire.readTag();
      this.#tag = tag;
      if (!readField(tag >>> 3)) this.#wire.skip(tag);
    }
  }

  #text(): string {
    this.#expect(WireType.bytes);
    const end = this.#wire.readEnd();
    const part = this.#bytes.subarray(this.#wire.position, end);
    if (!isUtf8(part)) throw malformed("text in UTF-8", this.#wire.position);
    this.#wire.position = end;
    return part.toString("utf8");
  }

  /** Every problem of the resource shows its name. */
  #name(): string {
    const at = this.#wire.position;
    const name = this.#text();
    if (name.length > NAME_LENGTH_MAX) throw malformed(`a name of at most ${NAME_LENGTH_MAX} characters`, at);
    return name;
  }

  /** A uint32, a bool or an enum. */
  #number(): number {
    this.#expect(WireType.varint);
    return this.#wire.readVarint();
  }

  #double(): number {
    this.#expect(WireType.fixed64);
    const at = this.#wire.position;
    if (this.#wire.end - at < 8) throw malformed("8 more bytes", at);
    this.#wire.position = at + 8;
    return this.#bytes.readDoubleLE(at);
  }

  #expect(type: number): void {
    if ((this.#tag & 7) === type) return;
    throw malformed(`wire type ${type} for field ${this.#tag >>> 3}, got ${this.#tag & 7}`, this.#wire.position);
  }
}

/** Keys and values of a mapping. */
type Entries = [string, SourceNode][];

interface Limit {
  unit: number;
  requests: number;
  isUnlimited: boolean;
  name: string;
  readonly replaces: SourceNode[];
}

function limitNode({ unit, requests, isUnlimited, name, replaces }: Limit): MappingNode {
  const entries: Entries = [];
  // In an unlimited rule, 0 means that the field is absent.
  if (!isUnlimited || unit !== 0) entries.push(["unit", textNode(UNIT_NAMES[unit] ?? String(unit))]);
  if (!isUnlimited || requests !== 0) entries.push(["requests_per_unit", numberNode(requests)]);
  if (isUnlimited) entries.push(["unlimited", switchNode(true)]);
  if (name !== "") entries.push(["name", textNode(name)]);
  if (replaces.length > 0) entries.push(["replaces", sequence(replaces)]);
  return mapping(entries);
}

/** A mapping without a place; tree-wire.ts gives it one. */
export function mapping(entries: Entries): MappingNode {
  return {
    kind: "mapping",
    at: NOWHERE,
    entries: entries.map(([key, value]) => ({ key: textNode(key), value, isMerged: false })),
  };
}

/** A list without a place. */
export function sequence(items: readonly SourceNode[]): SequenceNode {
  return { kind: "sequence", at: NOWHERE, items };
}

/** Text without a place, whatever it looks like. */
export function textNode(text: string): ScalarNode {
  return scalar(text, true, { type: "text" });
}

function switchNode(isOn: boolean): ScalarNode {
  return scalar(String(isOn), false, { type: "boolean", boolean: isOn });
}

function nullNode(): ScalarNode {
  return scalar("null", false, { type: "null" });
}

function numberNode(number: number): ScalarNode {
  const type = Number.isSafeInteger(number) ? "integer" : "float";
  return scalar(String(number), false, { type, number });
}

/** A scalar without a place. */
export function scalar(text: string, isQuoted: boolean, value: ScalarValue): ScalarNode {
  return { kind: "scalar", at: NOWHERE, text, isQuoted, value };
}
