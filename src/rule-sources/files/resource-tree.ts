// Converts a RateLimitConfig message (proto/ratelimit) into the tree that engine/rules compiles: the same keys as a
// rules file, without defaults beyond those of the protocol. The wire format is first read into what the message's JSON
// would hold, with the names of proto/, so that dumps of control planes in JSON become the same tree.

import { RequestError } from "../../base/errors.ts";
import { isUtf8 } from "../../base/host.ts";
import { isRecord } from "../../base/is-record.ts";
import { malformed, WireReader, WireType } from "../../base/wire.ts";
import { UNIT_NAMES } from "../../engine/domain/limit.ts";
import { refusedFile } from "../../engine/rules/problems.ts";
import type { ScalarValue } from "../../engine/rules/scalar.ts";
import { NODES_FAULT } from "../../engine/rules/schema.ts";
import type { Place, ScalarNode, SourceFile, SourceNode } from "../../engine/rules/source.ts";

/** Most messages nested in each other; protobuf libraries have the same bound. */
const DEPTH_MAX = 100;
/** Nodes that a message becomes, in the mean: an empty one has a mapping with one key. */
const NODES_PER_MESSAGE = 3;
/** Longest name of a resource. */
const NAME_LENGTH_MAX = 1_024;

/** The fields of a message, as its JSON has them. */
type Members = Record<string, unknown>;

/**
 * Reads one message. Never throws for a malformed one: `problems` says what is wrong. tree-wire.ts gives the nodes
 * their paths.
 */
export function readResource(value: Buffer, nodesMax: number): SourceFile {
  const config: Members = {};
  let fault: string | undefined;
  try {
    new MessageReader(value, nodesMax).readAll(CONFIG, config);
  } catch (error) {
    if (error instanceof RequestError) fault = `the message can't be read: ${error.message}`;
    else if (error instanceof TooManyNodes) fault = NODES_FAULT;
    else throw error;
  }
  const { name, ...rest } = config;
  const shown = typeof name === "string" && name !== "" ? name : "without a name";
  if (fault === undefined) return resourceFile(shown, rest);
  return refusedFile(`resource ${shown}`, true, fault);
}

/** The tree of a message whose JSON has these members, with the names of proto/. */
export function resourceFile(shownName: string, { domain = "", descriptors = [], ...rest }: Members): SourceFile {
  const root = nodeOf({ domain, descriptors: withDefaults(descriptors, descriptorOf), ...rest });
  return { name: `resource ${shownName}`, isResource: true, root, problems: [] };
}

// A field that the wire leaves out has the default of its type.
function descriptorOf(written: Members): Members {
  const { key = "", value, rate_limit, metadata, descriptors, ...rest } = written;
  const { shadow_mode, detailed_metric, quota_mode, ...unknown } = rest;
  // Gateways set modes on every level of a chain; on levels without a limit they have no effect and are dropped.
  const ofLimit = rate_limit === undefined ? {} : { shadow_mode, detailed_metric, quota_mode, metadata };
  return {
    key,
    value,
    rate_limit: isRecord(rate_limit) ? limitOf(rate_limit) : rate_limit,
    ...ofLimit,
    descriptors: descriptors && withDefaults(descriptors, descriptorOf),
    ...unknown,
  };
}

function limitOf({ unit = 0, requests_per_unit = 0, unlimited, name, replaces, ...unknown }: Members): Members {
  // In an unlimited rule, 0 means that the field is absent.
  const isAbsent = (value: unknown) => unlimited === true && value === 0;
  return {
    unit: isAbsent(unit) ? undefined : typeof unit === "number" ? (UNIT_NAMES[unit] ?? String(unit)) : unit,
    requests_per_unit: isAbsent(requests_per_unit) ? undefined : requests_per_unit,
    unlimited,
    name,
    replaces: replaces && withDefaults(replaces, ({ name = "", ...other }) => ({ name, ...other })),
    ...unknown,
  };
}

function withDefaults(list: unknown, itemOf: (item: Members) => Members): unknown {
  return Array.isArray(list) ? list.map((item: unknown) => (isRecord(item) ? itemOf(item) : item)) : list;
}

// The place of all nodes until tree-wire.ts computes their paths.
const NOWHERE: Place = { file: "", line: 0, column: 0 };

function nodeOf(value: unknown): SourceNode {
  if (Array.isArray(value)) return { kind: "sequence", at: NOWHERE, items: value.map(nodeOf) };
  if (isRecord(value)) {
    const given = Object.entries(value).filter(([, member]) => member !== undefined);
    const entries = given.map(([key, member]) => ({ key: textNode(key), value: nodeOf(member), isMerged: false }));
    return { kind: "mapping", at: NOWHERE, entries };
  }
  if (typeof value === "string") return textNode(value);
  return { kind: "scalar", at: NOWHERE, text: String(value), isQuoted: false, value: scalarOf(value) };
}

/** Text, whatever it looks like. */
function textNode(text: string): ScalarNode {
  return { kind: "scalar", at: NOWHERE, text, isQuoted: true, value: { type: "text" } };
}

function scalarOf(value: unknown): ScalarValue {
  if (typeof value === "boolean") return { type: "boolean", boolean: value };
  if (typeof value !== "number") return { type: "null" };
  return { type: Number.isSafeInteger(value) ? "integer" : "float", number: value };
}

/** Reads the value of a field. `earlier` is what the same field held before, which a message or a list adds to. */
type ReadValue = (reader: MessageReader, depth: number, earlier: unknown) => unknown;

/** The name of each field in JSON, and how it is read, by its number. */
type Fields = Readonly<Record<number, readonly [name: string, read: ReadValue]>>;

const text: ReadValue = (reader) => reader.text();
const number: ReadValue = (reader) => reader.varint();
const flag: ReadValue = (reader) => reader.varint() !== 0;

function message(fieldsOf: () => Fields): ReadValue {
  return (reader, depth, earlier) => reader.embedded(depth + 1, fieldsOf(), (earlier ?? {}) as Members);
}

function list(read: ReadValue): ReadValue {
  return (reader, depth, earlier = []) => {
    (earlier as unknown[]).push(read(reader, depth, undefined));
    return earlier;
  };
}

const CONFIG: Fields = {
  1: ["name", (reader) => reader.name()],
  2: ["domain", text],
  3: ["descriptors", list(message(() => DESCRIPTOR))],
};
const DESCRIPTOR: Fields = {
  1: ["key", text],
  2: ["value", text],
  3: ["rate_limit", message(() => LIMIT)],
  4: ["descriptors", list(message(() => DESCRIPTOR))],
  5: ["shadow_mode", flag],
  6: ["detailed_metric", flag],
  7: ["quota_mode", flag],
  8: ["metadata", struct],
};
const LIMIT: Fields = {
  1: ["unit", number],
  2: ["requests_per_unit", number],
  3: ["unlimited", flag],
  4: ["name", text],
  5: ["replaces", list(message(() => ({ 1: ["name", text] })))],
};
// google.protobuf.Struct, Value and ListValue. In the wire format a map is a repeated message of key and value.
const ENTRIES: Fields = { 1: ["entries", list(message(() => ({ 1: ["key", text], 2: ["value", anyValue] })))] };
const ITEMS: Fields = { 1: ["items", list(anyValue)] };
const VALUE: Fields = {
  1: ["is", (reader) => void reader.varint()],
  2: ["is", (reader) => reader.double()],
  3: ["is", text],
  4: ["is", flag],
  5: ["is", (reader, depth) => struct(reader, depth, undefined)],
  6: ["is", (reader, depth) => reader.embedded(depth + 1, ITEMS, {}).items ?? []],
};

function struct(reader: MessageReader, depth: number, earlier: unknown): Members {
  const { entries = [] } = reader.embedded(depth + 1, ENTRIES, {}) as { entries?: { key?: string; value?: unknown }[] };
  const own = entries.map(({ key = "", value = null }): [string, unknown] => [key, value]);
  // Object.fromEntries defines own properties, so that a key such as __proto__ has no special meaning.
  return Object.fromEntries([...Object.entries((earlier ?? {}) as Members), ...own]);
}

function anyValue(reader: MessageReader, depth: number): unknown {
  return reader.embedded(depth + 1, VALUE, {}).is ?? null;
}

class TooManyNodes extends Error {}

// One for all messages, because it takes 80 KB. A message is read at once.
const wire = new WireReader();

class MessageReader {
  readonly #bytes: Buffer;
  readonly #wire = wire;
  #tag = 0;
  #nodesLeft: number;

  constructor(bytes: Buffer, nodesMax: number) {
    this.#bytes = bytes;
    this.#nodesLeft = nodesMax;
    this.#wire.open(bytes);
  }

  /** Reads the fields of the outermost message into `members`, which keep what was read before a fault. */
  readAll(fields: Fields, members: Members): void {
    try {
      this.#fields(0, this.#bytes.length, fields, members);
    } finally {
      this.#wire.close();
    }
  }

  embedded(depth: number, fields: Fields, members: Members): Members {
    if (depth > DEPTH_MAX) throw malformed(`at most ${DEPTH_MAX} messages inside each other`, this.#wire.position);
    // Counted before anything is made of it, because it may have two bytes.
    this.#nodesLeft -= NODES_PER_MESSAGE;
    if (this.#nodesLeft < 0) throw new TooManyNodes();
    this.#expect(WireType.bytes);
    const outer = this.#wire.end;
    this.#fields(depth, this.#wire.readEnd(), fields, members);
    this.#wire.end = outer;
    return members;
  }

  text(): string {
    this.#expect(WireType.bytes);
    const end = this.#wire.readEnd();
    const part = this.#bytes.subarray(this.#wire.position, end);
    if (!isUtf8(part)) throw malformed("text in UTF-8", this.#wire.position);
    this.#wire.position = end;
    return part.toString("utf8");
  }

  /** Every problem of the resource shows its name. */
  name(): string {
    const at = this.#wire.position;
    const name = this.text();
    if (name.length > NAME_LENGTH_MAX) throw malformed(`a name of at most ${NAME_LENGTH_MAX} characters`, at);
    return name;
  }

  /** A uint32, a bool or an enum. */
  varint(): number {
    this.#expect(WireType.varint);
    return this.#wire.readVarint();
  }

  double(): number {
    this.#expect(WireType.fixed64);
    const at = this.#wire.position;
    if (this.#wire.end - at < 8) throw malformed("8 more bytes", at);
    this.#wire.position = at + 8;
    return this.#bytes.readDoubleLE(at);
  }

  /** Reads all fields up to `end`; unknown ones are skipped. */
  #fields(depth: number, end: number, fields: Fields, members: Members): void {
    this.#wire.end = end;
    while (this.#wire.position < end) {
      const tag = this.#wire.readTag();
      this.#tag = tag;
      const field = fields[tag >>> 3];
      if (field === undefined) this.#wire.skip(tag);
      else members[field[0]] = field[1](this, depth, members[field[0]]);
    }
  }

  #expect(type: number): void {
    if ((this.#tag & 7) === type) return;
    throw malformed(`wire type ${type} for field ${this.#tag >>> 3}, got ${this.#tag & 7}`, this.#wire.position);
  }
}
