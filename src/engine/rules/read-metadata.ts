// Reads `metadata` of a rule, for the dynamic metadata of answers: any content, with values as YAML 1.1 resolves them.

import { textOf } from "../domain/request.ts";
import { type Field, isNull } from "./fields.ts";
import type { ProblemLog } from "./problems.ts";
import { METADATA_VALUES_MAX } from "./schema.ts";
import type { MappingNode, ScalarNode, SourceNode } from "./source.ts";

type Metadata = Readonly<Record<string, unknown>>;

/** Metadata as plain JSON values. Undefined if absent or empty. */
export function readMetadata(field: Field | undefined, log: ProblemLog): Metadata | undefined {
  if (field === undefined) return undefined;
  const values = countValues(field.value);
  if (values > METADATA_VALUES_MAX)
    return log.error(field.value.at, `metadata: expected at most ${METADATA_VALUES_MAX} values, got ${values}`);
  let entries = new Map<string, unknown>();
  for (const node of [...field.overridden, field.value]) {
    if (isNull(node)) entries = new Map();
    else if (node.kind === "mapping") addEntries(entries, node, topKey, log);
    else log.wrong(node, "metadata: expected a mapping of keys");
  }
  // Object.fromEntries defines own properties, so that a key such as __proto__ has no special meaning.
  return entries.size === 0 ? undefined : Object.fromEntries(entries);
}

function countValues(node: SourceNode): number {
  if (node.kind === "scalar") return 1;
  let count = 0;
  if (node.kind === "sequence") for (const item of node.items) count += countValues(item);
  else for (const { value } of node.entries) count += countValues(value);
  return Math.max(1, count);
}

type KeyReader = (key: ScalarNode) => string;

function addEntries(entries: Map<string, unknown>, node: MappingNode, keyOf: KeyReader, log: ProblemLog): void {
  for (const { key, value } of node.entries) entries.set(keyOf(key), plainValueOf(value, log));
}

function plainValueOf(node: SourceNode, log: ProblemLog): unknown {
  if (node.kind === "sequence") return node.items.map((item) => plainValueOf(item, log));
  if (node.kind === "mapping") {
    const entries = new Map<string, unknown>();
    addEntries(entries, node, nestedKey, log);
    return Object.fromEntries(entries);
  }
  const { value } = node;
  if (value.type === "null") return null;
  if (value.type === "text") return node.text;
  if (value.type === "boolean") return value.boolean;
  if (value.type === "binary") return utf8Of(node, value.bytes, log);
  return value.number;
}

// As in the reference, keys of the first level keep their written text, and deeper keys are resolved and printed as Go
// prints them.
const topKey: KeyReader = ({ text, value }) => {
  if (value.type === "null") return "";
  return value.type === "binary" ? textOf(value.bytes) : text;
};

const nestedKey: KeyReader = ({ text, value }) => {
  if (value.type === "null") return "<nil>";
  if (value.type === "text") return text;
  if (value.type === "boolean") return String(value.boolean);
  if (value.type === "binary") return textOf(value.bytes);
  return value.type === "float" ? printFloat(value.number) : String(value.number);
};

// As Go prints floats: shortest digits, with an exponent of at least two digits below 1e-4 and from 1e21 on.
function printFloat(number: number): string {
  if (Number.isNaN(number)) return "NaN";
  if (!Number.isFinite(number)) return number > 0 ? "+Inf" : "-Inf";
  const isSmall = number !== 0 && Math.abs(number) < 1e-4;
  const text = isSmall ? number.toExponential() : String(number);
  return text.replace(/e([-+])(\d)$/, "e$10$2");
}

function utf8Of(node: ScalarNode, bytes: string, log: ProblemLog): string {
  const buffer = Buffer.from(bytes, "latin1");
  const text = buffer.toString("utf8");
  if (!Buffer.from(text, "utf8").equals(buffer)) log.error(node.at, "metadata: the !!binary value is not UTF-8 text");
  return text;
}
