// Descriptors as they are typed at terminals and in case files.

import * as fc from "fast-check";
import { expect, test } from "vitest";
import { doubtOf, readTyped } from "../../../../src/engine/domain/entry-text.ts";

test("every descriptor can be typed", () => {
  const entry = fc.record({ key: fc.string({ minLength: 1 }).filter((key) => !key.includes("=")), value: fc.string() });
  const typed = (text: string) => text.replaceAll("\\", "\\\\").replaceAll(",", "\\,");
  fc.assert(
    fc.property(fc.array(entry, { minLength: 1, maxLength: 4 }), (entries) => {
      const text = entries.map(({ key, value }) => `${typed(key)}=${typed(value)}`).join(",");
      expect(readTyped(text)).toEqual(entries);
    }),
  );
});

test.each([
  { name: "a lone backslash", text: "a=\\d", expected: [{ key: "a", value: "\\d" }] },
  {
    name: "a comma and a byte",
    text: "a=\\,\\xFFz,b=c",
    expected: [
      { key: "a", value: ",\ufffdz", valueBase64: "LP96" },
      { key: "b", value: "c" },
    ],
  },
  { name: "a comma as a byte", text: "a=b\\x2cc", expected: [{ key: "a", value: "b,c" }] },
  { name: "a backslash before what looks like a byte", text: "a=\\\\xff", expected: [{ key: "a", value: "\\xff" }] },
  { name: "what is no byte", text: "a=\\xfg", expected: [{ key: "a", value: "\\xfg" }] },
])("reads $name", ({ text, expected }) => {
  expect(readTyped(text)).toEqual(expected);
});

test("every value can be typed as bytes", () => {
  const typed = (bytes: Uint8Array) => [...bytes].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 12 }), (bytes) => {
      const read = readTyped(`a=${typed(bytes)}`);
      const [entry] = typeof read === "string" ? [] : read;
      const value = Buffer.from(
        entry?.valueBase64 ?? entry?.value ?? "",
        entry?.valueBase64 === undefined ? "utf8" : "base64",
      );
      expect(value).toEqual(Buffer.from(bytes));
    }),
  );
});

test.each(["", "a", "=b", "a=b,", "a=b,,c=d", "a=b,c"])("refuses '%s'", (text) => {
  expect(readTyped(text)).toBe(`expected key=value,key2=value2, got '${text}'`);
});

test("allows bytes in values only", () => {
  expect(readTyped("\\xff=a")).toMatch(/in values only/);
});

test.each([
  ["acme plan=gold", "tenant=acme,plan=gold"],
  ["acme  plan=gold x=y", "tenant=acme,plan=gold x=y"],
  [" x-plan=", "tenant=,x-plan="],
  ["Mozilla/5.0 (X11; Linux)", undefined],
  ["a b", undefined],
  ["/search?q=a b", undefined],
])("warns of a value that looks like two entries: '%s'", (value, meant) => {
  const says = doubtOf([
    { key: "x", value: "y" },
    { key: "tenant", value },
  ]);
  if (meant === undefined) expect(says).toBeUndefined();
  else expect(says).toContain(`looks like two entries; commas separate entries: ${meant}`);
});

test.each([" plan", "plan ", "\tplan"])("warns of a key with a blank before or after it: '%s'", (key) => {
  const entries = readTyped(`tenant=acme,${key}=gold`);
  expect(entries).toHaveLength(2);
  expect(typeof entries === "string" ? entries : doubtOf(entries)).toBe(
    `the key '${key}' begins or ends with a blank; expected key=value,key2=value2, without blanks`,
  );
});
