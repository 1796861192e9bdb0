// Plain JSON values as google.protobuf.Struct, the form of dynamic metadata. Only refusals and rules with metadata carry
// any; the metadata of refusals comes again and again, so its bytes are remembered.

import { invariant } from "../core/invariant.ts";
import type { WireWriter } from "./wire-writer.ts";

/** Receivers stop at 100 messages inside each other, and each level of a map takes three. */
export const STRUCT_DEPTH_MAX = 30;

/** Bytes of frozen maps, for as long as somebody holds the map. */
const remembered = new WeakMap<object, Uint8Array>();

/** Writes a Struct as `field`, as `writeStruct` does. A map that is frozen is encoded once; its values must not change. */
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
 * Writes the fields of a Struct. Members that are undefined are left out, in lists they are null; what stands deeper
 * than STRUCT_DEPTH_MAX is written as null, because receivers refuse it. Throws InvariantError for what JSON can't hold.
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
