// Decodes and encodes the messages of ShouldRateLimit, on the hot path of every call. Requests are read from the buffer
// and answers written into one without intermediate objects: only strings are allocated (bench/micro/codec.mjs).
// test/property/codec.test.ts compares it with proto/.

import { RequestError } from "../../base/errors.ts";
import { invariant } from "../../base/invariant.ts";
import { WireReader, WireType, type WireWriter } from "../../base/wire.ts";
import { type Limit, quotaOf, quotaSecondsOf, quotaUnitOf, Unit } from "../../engine/domain/limit.ts";
import {
  DESCRIPTORS_MAX,
  type Descriptor,
  DOMAIN_BYTES_MAX,
  ENTRIES_MAX,
  ENTRY_BYTES_MAX,
  type LimitRequest,
} from "../../engine/domain/request.ts";
import type { Decision, Status } from "../../engine/limiter/call.ts";

const VARINT = WireType.varint;
const BYTES = WireType.bytes;

/** One reader for all calls of all methods, because decoding is synchronous. */
export const reader = new WireReader();

/**
 * Resets `into` and fills it from the wire form of a RateLimitRequest. Nothing of `message` is kept. Throws
 * RequestError for a malformed message or one beyond the bounds of engine/domain/request.ts; `into` is then partly
 * filled. Does not check for an empty domain, missing descriptors or valid UTF-8.
 */
export function decodeRequest(message: Buffer, into: LimitRequest): void {
  into.reset();
  reader.open(message);
  try {
    while (reader.position < reader.end) {
      const tag = reader.readTag();
      if (tag === ((1 << 3) | BYTES)) into.domain = readDomain();
      else if (tag === ((2 << 3) | BYTES)) readDescriptor(into);
      else if (tag === ((3 << 3) | VARINT)) into.hitsAddend = reader.readVarint();
      else reader.skip(tag);
    }
  } finally {
    reader.close();
  }
}

/** Reads a domain at the reader's position. */
export function readDomain(): string {
  const end = reader.readEnd();
  const length = end - reader.position;
  if (length > DOMAIN_BYTES_MAX) {
    throw new RequestError(
      "REQUEST_DOMAIN_TOO_LONG",
      `expected a domain of at most ${DOMAIN_BYTES_MAX} bytes, got ${length}`,
    );
  }
  return reader.readText(end);
}

function readDescriptor(into: LimitRequest): void {
  const end = reader.readEnd();
  if (into.descriptorCount === DESCRIPTORS_MAX) {
    throw new RequestError("REQUEST_DESCRIPTORS_TOO_MANY", `expected at most ${DESCRIPTORS_MAX} descriptors, got more`);
  }
  const descriptor = into.addDescriptor();
  const outerEnd = reader.end;
  reader.end = end;
  while (reader.position < end) {
    const tag = reader.readTag();
    if (tag === ((1 << 3) | BYTES)) readEntry(descriptor);
    else if (tag === ((2 << 3) | BYTES)) readOverride(descriptor);
    else if (tag === ((3 << 3) | BYTES)) readHits(descriptor);
    else if (tag === ((4 << 3) | VARINT)) descriptor.isRefund = (reader.readVarint() | reader.high) !== 0;
    else reader.skip(tag);
  }
  reader.end = outerEnd;
}

/** Reads an entry at the reader's position into the descriptor. */
export function readEntry(descriptor: Descriptor): void {
  const end = reader.readEnd();
  if (descriptor.entryCount === ENTRIES_MAX) {
    throw new RequestError("REQUEST_ENTRIES_TOO_MANY", `expected at most ${ENTRIES_MAX} entries, got more`);
  }
  const outerEnd = reader.end;
  reader.end = end;
  let key = "";
  let value = "";
  while (reader.position < end) {
    const tag = reader.readTag();
    if (tag === ((1 << 3) | BYTES)) key = readEntryText("the key of an entry");
    else if (tag === ((2 << 3) | BYTES)) value = readEntryText("the value of an entry");
    else reader.skip(tag);
  }
  reader.end = outerEnd;
  descriptor.addEntry(key, value);
}

/** Reads text of at most ENTRY_BYTES_MAX bytes at the reader's position. `what` names it in the error. */
export function readEntryText(what: string): string {
  const end = reader.readEnd();
  const length = end - reader.position;
  if (length > ENTRY_BYTES_MAX) {
    throw new RequestError(
      "REQUEST_ENTRY_TOO_LONG",
      `expected ${what} in at most ${ENTRY_BYTES_MAX} bytes, got ${length}`,
    );
  }
  return reader.readText(end);
}

// As protobuf requires, a message that is sent twice is merged: fields that the second one lacks stay as the first one
// set them.
function readOverride(descriptor: Descriptor): void {
  const end = reader.readEnd();
  const outerEnd = reader.end;
  reader.end = end;
  descriptor.hasOverride = true;
  while (reader.position < end) {
    const tag = reader.readTag();
    if (tag === ((1 << 3) | VARINT)) descriptor.overrideAmount = reader.readVarint();
    // Enums are signed: a negative unit is a varint of ten bytes.
    else if (tag === ((2 << 3) | VARINT)) descriptor.overrideUnit = reader.readVarint() | 0;
    else if (tag === ((3 << 3) | BYTES)) readUnitMultiplier(descriptor);
    else if (tag === ((50_000 << 3) | BYTES)) descriptor.overrideAlgorithm = readEntryText("the limit's algorithm");
    else reader.skip(tag);
  }
  reader.end = outerEnd;
}

function readUnitMultiplier(descriptor: Descriptor): void {
  const end = reader.readEnd();
  const outerEnd = reader.end;
  reader.end = end;
  // A wrapper without its number says 0, or nothing if it is sent again.
  if (descriptor.overrideUnits < 0) descriptor.overrideUnits = 0;
  while (reader.position < end) {
    const tag = reader.readTag();
    if (tag === ((1 << 3) | VARINT)) descriptor.overrideUnits = reader.readVarint();
    else reader.skip(tag);
  }
  reader.end = outerEnd;
}

function readHits(descriptor: Descriptor): void {
  const end = reader.readEnd();
  const outerEnd = reader.end;
  reader.end = end;
  descriptor.hasHits = true;
  while (reader.position < end) {
    const tag = reader.readTag();
    if (tag === ((1 << 3) | VARINT)) {
      const low = reader.readVarint();
      descriptor.hits = reader.high === 0 ? low : reader.high * 4_294_967_296 + low;
    } else reader.skip(tag);
  }
  reader.end = outerEnd;
}

/** RateLimitResponse.Code. The numbers of RLS v3, which headgate.v1 uses, too. */
export const CODE_OK = 1;
export const CODE_OVER_LIMIT = 2;
const UINT32_MAX = 0xffff_ffff;
/** Largest google.protobuf.Duration, about 10,000 years. */
const DURATION_SECONDS_MAX = 315_576_000_000;

/**
 * Writes the wire form of a RateLimitResponse. Returns a view into the writer's buffer, valid until its next use. The
 * overall code is OK or OVER_LIMIT, never UNKNOWN, which callers would treat as allowed. `hasMultiplier`: writes
 * windows such as 30 s as a number of seconds (`unit_multiplier`), which callers before Envoy 1.40 take for one second.
 */
export function encodeDecision(decision: Decision, writer: WireWriter, hasMultiplier = false): Uint8Array {
  writer.clear();
  writer.writeVarintField(1, decision.overLimit ? CODE_OVER_LIMIT : CODE_OK);
  for (let i = 0; i < decision.statusCount; i++) writeStatus(decision.statuses[i] as Status, writer, hasMultiplier);
  for (let i = 0; i < decision.headerCount; i++) {
    const header = decision.headers[i];
    if (header !== undefined) writeHeader(header.key, header.value, writer);
  }
  if (decision.metadata !== undefined) writeStructField(6, decision.metadata, writer);
  return writer.view();
}

function writeStatus(status: Status, writer: WireWriter, hasMultiplier: boolean): void {
  const at = writer.openMessage(2);
  writer.writeVarintField(1, status.overLimit ? CODE_OVER_LIMIT : CODE_OK);
  if (status.limit !== undefined) writeLimit(status.limit, writer, hasMultiplier);
  const remaining = clamp(status.remaining, UINT32_MAX);
  if (remaining !== 0) writer.writeVarintField(3, remaining);
  if (status.hasReset) {
    const durationAt = writer.openMessage(4);
    const seconds = clamp(status.resetSeconds, DURATION_SECONDS_MAX);
    if (seconds !== 0) writer.writeVarintField(1, seconds);
    writer.closeMessage(durationAt);
  }
  writer.closeMessage(at);
}

function writeLimit(limit: Limit, writer: WireWriter, hasMultiplier: boolean): void {
  const at = writer.openMessage(2);
  const amount = clamp(quotaOf(limit), UINT32_MAX);
  const unit = quotaUnitOf(limit);
  const seconds = hasMultiplier && unit === Unit.unknown ? quotaSecondsOf(limit) : 0;
  if (amount !== 0) writer.writeVarintField(1, amount);
  if (unit !== Unit.unknown || seconds > 0) writer.writeVarintField(2, unit || Unit.second);
  if (limit.names.name !== "") writer.writeTextField(3, limit.names.name);
  if (seconds > 0) {
    const wrapperAt = writer.openMessage(4);
    writer.writeVarintField(1, seconds);
    writer.closeMessage(wrapperAt);
  }
  writer.closeMessage(at);
}

function writeHeader(key: string, value: string, writer: WireWriter): void {
  const at = writer.openMessage(3);
  if (key !== "") writer.writeTextField(1, key);
  if (value !== "") writer.writeTextField(2, value);
  writer.closeMessage(at);
}

/** `value` rounded down and limited to 0..max; 0 for NaN. */
function clamp(value: number, max: number): number {
  if (value >= max) return max;
  return value > 0 ? Math.floor(value) : 0;
}

// Encodes plain JSON values as google.protobuf.Struct, the form of dynamic metadata. The metadata of refusals is often
// equal to the one before, so encoded bytes are cached.

/** Protobuf parsers refuse more than 100 nested messages, and each level of a map takes three. */
export const STRUCT_DEPTH_MAX = 30;

/** Encoded bytes of frozen maps, for as long as the map exists. */
const remembered = new WeakMap<object, Uint8Array>();

/**
 * Writes a Struct as `field`, as `writeStruct` does. A frozen map is encoded once, so values inside it must never
 * change.
 */
export function writeStructField(field: number, members: Readonly<Record<string, unknown>>, writer: WireWriter): void {
  const known = remembered.get(members);
  if (known !== undefined) {
    writer.writeBytes(known);
    return;
  }
  const openedAt = writer.openMessage(field);
  writeStruct(members, writer);
  writer.closeMessage(openedAt);
  if (Object.isFrozen(members)) remembered.set(members, writer.copyFrom(openedAt - 1));
}

/**
 * Writes the fields of a Struct. Undefined members are left out; in lists they become null. Maps and lists deeper than
 * STRUCT_DEPTH_MAX become null, because receivers refuse them. Throws InvariantError for values that JSON does not
 * have.
 */
export function writeStruct(members: Readonly<Record<string, unknown>>, writer: WireWriter, depth = 1): void {
  for (const [key, value] of Object.entries(members)) {
    if (value === undefined) continue;
    const entryAt = writer.openMessage(1);
    writer.writeTextField(1, key);
    const valueAt = writer.openMessage(2);
    writeValue(value, writer, depth);
    writer.closeMessage(valueAt);
    writer.closeMessage(entryAt);
  }
}

function writeValue(value: unknown, writer: WireWriter, depth: number): void {
  if (typeof value === "string") writer.writeTextField(3, value);
  else if (typeof value === "number") writer.writeDoubleField(2, value);
  else if (typeof value === "boolean") writer.writeVarintField(4, value ? 1 : 0);
  else if (value === null || value === undefined) writer.writeVarintField(1, 0);
  else {
    invariant(typeof value === "object", `metadata holds JSON values only, not a ${typeof value}`);
    if (depth >= STRUCT_DEPTH_MAX) writer.writeVarintField(1, 0);
    else if (Array.isArray(value)) writeList(value, writer, depth + 1);
    else writeMap(value as Record<string, unknown>, writer, depth + 1);
  }
}

function writeMap(members: Readonly<Record<string, unknown>>, writer: WireWriter, depth: number): void {
  const at = writer.openMessage(5);
  writeStruct(members, writer, depth);
  writer.closeMessage(at);
}

function writeList(values: readonly unknown[], writer: WireWriter, depth: number): void {
  const at = writer.openMessage(6);
  for (const value of values) {
    const valueAt = writer.openMessage(1);
    writeValue(value, writer, depth);
    writer.closeMessage(valueAt);
  }
  writer.closeMessage(at);
}
