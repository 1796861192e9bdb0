// Scalars mean what YAML 1.1 says, to the edge of every number form.

import { describe, expect, test } from "vitest";
import { resolvePlain, resolveScalar } from "../../../../src/engine/rules/scalar.ts";

describe("plain scalars", () => {
  test.each([
    ...["", "~", "null", "Null", "NULL"].map((text) => ({ text, value: { type: "null" } })),
    ...["y", "Y", "yes", "YES", "on", "On", "true", "TRUE"].map((text) => ({
      text,
      value: { type: "boolean", boolean: true },
    })),
    ...["n", "N", "no", "No", "off", "OFF", "false", "False"].map((text) => ({
      text,
      value: { type: "boolean", boolean: false },
    })),
    ...[
      "yEs",
      "tRUE",
      "nuLL",
      "onn",
      "none",
      "a",
      "<<",
      "=",
      "12:30",
      "2026-11-21",
      "10.0.0.1",
      "1 0",
      "-",
      "+",
      ".",
    ].map((text) => ({ text, value: { type: "text" } })),
  ])("'$text' is $value.type", ({ text, value }) => {
    expect(resolvePlain(text)).toEqual(value);
  });

  test.each([
    ["0", 0],
    ["-0", 0],
    ["15", 15],
    ["+5", 5],
    ["-7", -7],
    ["0x1F", 31],
    ["0X1f", 31],
    ["-0x10", -16],
    ["010", 8],
    ["0o17", 15],
    ["0b11", 3],
    ["-0b11", -3],
    ["1_000", 1000],
    ["0_1_0", 8],
    ["9007199254740991", Number.MAX_SAFE_INTEGER],
  ])("%s is the integer %d", (text, number) => {
    const value = resolvePlain(text);
    expect(value).toEqual({ type: "integer", number });
  });

  test.each([
    ["1.5", 1.5],
    [".5", 0.5],
    ["1.", 1],
    ["1e3", 1000],
    ["-1_0.5", -10.5],
    ["08", 8],
    ["0819", 819],
    [".inf", Number.POSITIVE_INFINITY],
    ["-.INF", Number.NEGATIVE_INFINITY],
    ["18446744073709551616", 2 ** 64],
    ["-9223372036854775809", -(2 ** 63)],
  ])("%s is the float %d", (text, number) => {
    expect(resolvePlain(text)).toEqual({ type: "float", number });
  });

  test.each(["1e400", "0xFFFFFFFFFFFFFFFFF", "0x", "0b", "0b2", "1.2.3", "--1", "_1", "._5", ".5.5"])(
    "%s stays text",
    (text) => {
      expect(resolvePlain(text)).toEqual({ type: "text" });
    },
  );

  test("distinguishes a number between the signed and the unsigned 64-bit range", () => {
    expect(resolvePlain("9223372036854775807").type).toBe("integer");
    expect(resolvePlain("9223372036854775808").type).toBe("large integer");
    expect(resolvePlain("18446744073709551615").type).toBe("large integer");
  });
});

describe("tagged and quoted scalars", () => {
  const long = (name: string) => `tag:yaml.org,2002:${name}`;

  test.each([
    { text: "15", tag: "", quoted: true, type: "text" },
    { text: "1.5", tag: long("str"), quoted: false, type: "text" },
    { text: "10", tag: long("int"), quoted: true, type: "integer" },
    { text: "yes", tag: long("bool"), quoted: true, type: "boolean" },
    { text: "1", tag: long("float"), quoted: false, type: "float" },
    { text: "", tag: long("null"), quoted: false, type: "null" },
    { text: "1.5", tag: "!own", quoted: false, type: "text" },
    { text: "15", tag: "!", quoted: false, type: "text" },
  ])("'$text' with tag '$tag' is $type", ({ text, tag, quoted, type }) => {
    expect(resolveScalar(text, tag, quoted)).toMatchObject({ type });
  });

  test("binary is decoded to one-byte text", () => {
    expect(resolveScalar("//79", long("binary"), false)).toEqual({ type: "binary", bytes: "\xff\xfe\xfd" });
  });

  test.each([
    { text: "ten", tag: "int" },
    { text: "1.5", tag: "int" },
    { text: "maybe", tag: "bool" },
    { text: "", tag: "int" },
    { text: "x", tag: "null" },
    { text: "2026-02-28", tag: "timestamp" },
    { text: "a===", tag: "binary" },
  ])("'$text' contradicts its tag !!$tag", ({ text, tag }) => {
    expect(resolveScalar(text, long(tag), false)).toBeTypeOf("string");
  });
});
