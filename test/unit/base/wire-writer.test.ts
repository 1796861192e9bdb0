// The wire format as written: numbers, text, embedded messages of every length of length.

import { expect, test } from "vitest";
import { WireWriter } from "../../../src/base/wire.ts";
import { bytesField } from "../../support/wire.ts";

function written(write: (writer: WireWriter) => void): Buffer {
  const writer = new WireWriter();
  write(writer);
  return Buffer.from(writer.view());
}

test.each([
  { name: "nothing", text: "" },
  { name: "ASCII", text: "RateLimit-Limit" },
  { name: "ASCII that a loop no longer writes", text: "a".repeat(65) },
  { name: "short text of another script", text: "日本語" },
  { name: "text whose length takes two bytes only by its widest form", text: "é".repeat(50) },
  { name: "long text of another script", text: "日本語".repeat(2_000) },
])("writes $name as UTF-8", ({ text }) => {
  expect(written((writer) => writer.writeTextField(1, text))).toEqual(bytesField(1, text));
});

test("writes half a surrogate pair as a replacement character", () => {
  expect(written((writer) => writer.writeTextField(1, "a\ud800b"))).toEqual(bytesField(1, "a\ufffdb"));
});

test.each([0, 126, 127, 128, 16_383, 16_384, 3_000_000])("closes a message of %d bytes", (length) => {
  const inner = bytesField(1, "a".repeat(length));
  const bytes = written((writer) => {
    const outer = writer.openMessage(2);
    const at = writer.openMessage(3);
    writer.writeTextField(1, "a".repeat(length));
    writer.closeMessage(at);
    writer.closeMessage(outer);
  });
  expect(bytes.equals(bytesField(2, bytesField(3, inner)))).toBe(true);
});
