// What becomes of metadata that a Struct can hold only in part.

import { fromBinary } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { InvariantError } from "../../../../src/base/invariant.ts";
import { WireWriter } from "../../../../src/base/wire.ts";
import { STRUCT_DEPTH_MAX, writeStruct, writeStructField } from "../../../../src/grpc/rls/codec.ts";

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

test("a frozen map is written from memory as it was at first, between other fields", () => {
  const members = Object.freeze({ rule: "a", remaining: 7, nested: { ok: true } });
  const writer = new WireWriter();
  const rounds = [1, 2, 3].map(() => {
    writer.clear();
    writer.writeVarintField(1, 5);
    writeStructField(6, members, writer);
    writer.writeVarintField(7, 9);
    return Buffer.from(writer.view()).toString("hex");
  });
  const inner = Buffer.from(write(members));
  expect(new Set(rounds)).toEqual(new Set([`080532${inner.length.toString(16)}${inner.toString("hex")}3809`]));
});

test("a map that may change is encoded again each time", () => {
  const members = { remaining: 7 };
  const bytes = () => {
    const writer = new WireWriter();
    writeStructField(6, members, writer);
    return Buffer.from(writer.view()).toString("hex");
  };
  const before = bytes();
  members.remaining = 6;
  expect(bytes()).not.toBe(before);
});
