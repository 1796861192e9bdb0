// Descriptors and entries as they are typed.

import * as fc from "fast-check";
import { expect, test } from "vitest";
import { parseByteDescriptor, parseDescriptor, parseEntry, parseWhole } from "../../../src/cli/arguments.ts";

test.each([
  { name: "key and value", text: "a=b", expected: [{ key: "a", value: "b" }] },
  {
    name: "several entries",
    text: "a=b,c=d",
    expected: [
      { key: "a", value: "b" },
      { key: "c", value: "d" },
    ],
  },
  { name: "an = in a value", text: "q=x=y", expected: [{ key: "q", value: "x=y" }] },
  {
    name: "a comma in a value",
    text: "a=b\\,c,d=e",
    expected: [
      { key: "a", value: "b,c" },
      { key: "d", value: "e" },
    ],
  },
  {
    name: "a backslash in a value",
    text: "a=b\\\\,c=d",
    expected: [
      { key: "a", value: "b\\" },
      { key: "c", value: "d" },
    ],
  },
  { name: "a lone backslash", text: "a=\\d", expected: [{ key: "a", value: "\\d" }] },
  { name: "no value", text: "a", expected: [{ key: "a", value: "" }] },
  { name: "an empty value", text: "a=", expected: [{ key: "a", value: "" }] },
  { name: "nothing", text: "", expected: [] },
])("reads $name", ({ text, expected }) => {
  expect(parseDescriptor(text)).toEqual(expected);
});

test("every descriptor can be typed", () => {
  const entry = fc.record({ key: fc.string({ minLength: 1 }).filter((key) => !key.includes("=")), value: fc.string() });
  const typed = (text: string) => text.replaceAll("\\", "\\\\").replaceAll(",", "\\,");
  fc.assert(
    fc.property(fc.array(entry, { minLength: 1, maxLength: 4 }), (entries) => {
      const text = entries.map(({ key, value }) => `${typed(key)}=${typed(value)}`).join(",");
      expect(parseDescriptor(text)).toEqual(entries);
    }),
  );
});

test.each([
  { name: "a byte that is no text", text: "a=x\\xff", expected: [{ key: "a", value_base64: "eP8=" }] },
  {
    name: "a comma and a byte",
    text: "a=\\,\\xFFz,b=c",
    expected: [
      { key: "a", value_base64: "LP96" },
      { key: "b", value: "c" },
    ],
  },
  { name: "bytes that are text", text: "a=\\xc3\\xa9", expected: [{ key: "a", value: "é" }] },
  { name: "a comma as a byte", text: "a=b\\x2cc", expected: [{ key: "a", value: "b,c" }] },
  { name: "a backslash before what looks like a byte", text: "a=\\\\xff", expected: [{ key: "a", value: "\\xff" }] },
  { name: "what is no byte", text: "a=\\xfg", expected: [{ key: "a", value: "\\xfg" }] },
])("reads $name where bytes may stand", ({ text, expected }) => {
  expect(parseByteDescriptor(text)).toEqual(expected);
});

test("every value can be typed as bytes", () => {
  const typed = (bytes: Uint8Array) => [...bytes].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 12 }), (bytes) => {
      const [entry] = parseByteDescriptor(`a=${typed(bytes)}`);
      const read =
        entry !== undefined && "value" in entry
          ? Buffer.from(entry.value)
          : Buffer.from(entry?.value_base64 ?? "", "base64");
      expect(read).toEqual(Buffer.from(bytes));
    }),
  );
});

test("bytes stand in values only", () => {
  expect(() => parseByteDescriptor("\\xff=a")).toThrow(/in values only/);
});

test("an entry needs a key", () => {
  expect(() => parseEntry("=b")).toThrow(/Expected key=value/);
});

test("whole numbers stay within their bounds", () => {
  const parse = parseWhole(1, 10);
  expect(["1", "10"].map(parse)).toEqual([1, 10]);
  for (const text of ["0", "11", "1.5", "-1", "", "x"]) expect(() => parse(text)).toThrow(/from 1 to 10/);
});
