// What becomes of metadata that a Struct can hold only in part.

import { fromBinary } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { InvariantError } from "../../../src/core/invariant.ts";
import { STRUCT_DEPTH_MAX, writeStruct } from "../../../src/rls/struct.ts";
import { WireWriter } from "../../../src/rls/wire-writer.ts";

function write(members: Record<string, unknown>): Uint8Array {
  const writer = new WireWriter();
  writeStruct(members, writer);
  return writer.view();
}

function nested(depth: number): Record<string, unknown> {
  return depth === 0 ? { end: 1 } : { inner: nested(depth - 1) };
}

test("leaves out members that are undefined and makes them null in lists", () => {
  expect(write({ gone: undefined })).toHaveLength(0);
  expect(Buffer.from(write({ list: [undefined] }))).toEqual(Buffer.from(write({ list: [null] })));
});

test("writes null for what is deeper than receivers read", () => {
  expect(write(nested(STRUCT_DEPTH_MAX + 5))).toEqual(write(nested(STRUCT_DEPTH_MAX + 50)));
});

test("stays within the 100 messages that receivers nest", () => {
  expect(() => fromBinary(StructSchema, write(nested(1_000)))).not.toThrow();
});

test.each([{ value: 1n }, { value: () => 1 }, { value: Symbol("s") }])("refuses what JSON can't hold", ({ value }) => {
  expect(() => write({ value })).toThrow(InvariantError);
});
