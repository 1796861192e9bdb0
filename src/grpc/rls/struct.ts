// Encodes plain JSON values as google.protobuf.Struct, the form of dynamic metadata. The metadata of refusals is often equal to the
// one before, so encoded bytes are cached.

import { invariant } from "../../engine/base/invariant.ts";
import type { WireWriter } from "./wire-writer.ts";

/** Protobuf parsers refuse more than 100 nested messages, and each level of a map takes three. */
export const STRUCT_DEPTH_MAX = 30;

/** Encoded bytes of frozen maps, for as long as the map exists. */
const remembered = new WeakMap<object, Uint8Array>();

/** Writes a Struct as `field`, as `writeStruct` does. A frozen map is encoded once, so values inside it must never change. */
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
 * STRUCT_DEPTH_MAX become null, because receivers refuse them. Throws InvariantError for values that JSON does not have.
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
