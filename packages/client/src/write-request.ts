// Writes a RateLimitRequest. The field numbers are those of proto/envoy/service/ratelimit/v3/rls.proto and what it
// imports. Separate from request.ts, so that no declaration that callers see needs the types of Node.js.

import { checkMembers, checkType, checkWhole, describeValue } from "./misuse.ts";
import {
  ALGORITHMS,
  type CheckRequest,
  type DescriptorInput,
  type Entries,
  type EntryValue,
  type FullDescriptor,
  type Override,
} from "./request.ts";
import { UNITS } from "./unit.ts";
import { FieldWriter } from "./wire.ts";

/** Largest amount of the protocol. */
export const UINT32_MAX = 4_294_967_295;

/** The bytes of the request. Throws TypeError for values that the protocol can't carry. */
export function writeRequest(request: CheckRequest): Buffer {
  checkMembers("check", request, REQUEST_NAMES);
  const { domain, descriptors, hits = 1 } = request;
  if (typeof domain !== "string" || domain === "") {
    throw new TypeError(`domain: expected the domain of a rule file, got ${describeValue(domain)}`);
  }
  if (!Array.isArray(descriptors) || descriptors.length === 0) {
    throw new TypeError(`descriptors: expected an array of at least one, got ${describeValue(descriptors)}`);
  }
  checkWhole("hits", hits, 0, UINT32_MAX);
  checkType("peek", request.peek, "boolean");
  checkType("refund", request.refund, "boolean");
  const message = new FieldWriter().addBytes(1, domain);
  for (const input of request.descriptors) message.addBytes(2, writeDescriptor(input, request));
  return message.addNumber(3, hits).toBytes();
}

/** What names the buckets of a request: its domain and entries, without hits. Throws TypeError like `writeRequest`. */
export function queueKeyOf(request: CheckRequest): string {
  writeRequest(request);
  const entries = request.descriptors.map((input) => pairsOf(fullForm(input).entries).flat().map(String));
  return JSON.stringify([request.domain, entries]);
}

const REQUEST_NAMES: readonly (keyof CheckRequest)[] = ["domain", "descriptors", "hits", "peek", "refund"];
const SETTING_NAMES = ["hits", "peek", "refund", "override"] as const;
const DESCRIPTOR_NAMES: readonly (keyof FullDescriptor)[] = ["entries", ...SETTING_NAMES];

// In the request's own field 0 means 1, so each descriptor of a peek has its own 0. A refund without hits gives back
// one.
function writeDescriptor(input: DescriptorInput, request: CheckRequest): Buffer {
  const full = fullForm(input);
  const isRefund = full.refund ?? request.refund ?? false;
  const isPeek = full.peek ?? (request.peek === true || (full.hits === undefined && request.hits === 0));
  const hits = isPeek ? 0 : (full.hits ?? (isRefund ? (request.hits ?? 1) : undefined));
  const message = new FieldWriter();
  writeEntries(full.entries, 1, message);
  if (full.override !== undefined) message.addBytes(2, writeOverride(full.override));
  if (hits !== undefined) message.addBytes(3, new FieldWriter().addNumber(1, hits).toBytes());
  if (isRefund) message.addNumber(4, 1);
  return message.toBytes();
}

/** Adds each entry as a field with this number; returns how many. Throws TypeError for an invalid entry. */
export function writeEntries(entries: Entries, field: number, message: FieldWriter): number {
  const pairs = pairsOf(entries);
  for (const [key, value] of pairs) {
    message.addBytes(field, new FieldWriter().addBytes(1, key).addBytes(2, textOf(key, value)).toBytes());
  }
  return pairs.length;
}

function fullForm(input: DescriptorInput): FullDescriptor {
  if (!isObject(input)) throw new TypeError(`descriptors: expected { key: value }, got ${describeValue(input)}`);
  if (!isFull(input)) return shortForm(input);
  checkMembers("a descriptor with entries", input, DESCRIPTOR_NAMES);
  if (input.hits !== undefined) checkWhole("hits", input.hits, 0, Number.MAX_SAFE_INTEGER);
  checkType("peek", input.peek, "boolean");
  checkType("refund", input.refund, "boolean");
  return input;
}

// `{ tenant: "acme", hits: 5 }` would be a descriptor with an entry `hits`, which meets no rule: every call would pass.
function shortForm(entries: Readonly<Record<string, EntryValue>>): FullDescriptor {
  const misplaced = SETTING_NAMES.find((name) => Object.hasOwn(entries, name) && typeof entries[name] !== "string");
  if (misplaced === undefined) return { entries };
  throw new TypeError(
    `descriptors: '${misplaced}' next to entries: expected { entries: { key: value }, ${misplaced}: ... }` +
      " (or text as its value, for an entry of that name)",
  );
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// In the short form every value is text, a number or a boolean, so an object under `entries` means the full form.
function isFull(input: DescriptorInput): input is FullDescriptor {
  return typeof input.entries === "object" && input.entries !== null;
}

function pairsOf(entries: Entries): readonly (readonly [string, EntryValue])[] {
  if (!isPairs(entries)) return Object.entries(entries);
  for (const pair of entries as readonly unknown[]) {
    if (Array.isArray(pair) && pair.length === 2 && typeof pair[0] === "string") continue;
    throw new TypeError(`entries: expected pairs of key and value, got ${describeValue(pair)}`);
  }
  return entries;
}

function isPairs(entries: Entries): entries is readonly (readonly [string, EntryValue])[] {
  return Array.isArray(entries);
}

// A missing value must not become the text "undefined" or "NaN", because all such callers would share one bucket.
function textOf(key: string, value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "boolean" || Number.isFinite(value)) return String(value);
  throw new TypeError(`the entry ${key}: expected text, a number or a boolean, got ${describeValue(value)}`);
}

/** Throws TypeError unless `value` is undefined or the name of an algorithm. */
export function checkAlgorithm(what: string, value: unknown): void {
  if (value === undefined || ALGORITHMS.some((name) => name === value)) return;
  throw new TypeError(`${what}: expected one of ${ALGORITHMS.join(", ")}, got ${describeValue(value)}`);
}

function writeOverride(override: Override): Buffer {
  checkMembers("override", override, ["requestsPerUnit", "unit", "algorithm"]);
  const { requestsPerUnit, unit, algorithm } = override;
  checkWhole("override.requestsPerUnit", requestsPerUnit, 0, UINT32_MAX);
  if (!UNITS.includes(unit)) {
    throw new TypeError(`override.unit: expected one of ${UNITS.join(", ")}, got ${describeValue(unit)}`);
  }
  checkAlgorithm("override.algorithm", algorithm);
  const message = new FieldWriter().addNumber(1, requestsPerUnit).addNumber(2, UNITS.indexOf(unit) + 1);
  return (algorithm === undefined ? message : message.addBytes(50_000, algorithm)).toBytes();
}
