// Remembered texts are always those of the bytes asked about.

import fc from "fast-check";
import { expect, test } from "vitest";
import { SHORT_TEXT_BYTES_MAX, ShortTexts } from "../../../src/rls/short-texts.ts";

function read(texts: ShortTexts, bytes: Uint8Array): string | undefined {
  // Bytes on both sides that are not the text's.
  const around = Buffer.concat([Buffer.from("<"), bytes, Buffer.from(">")]);
  return texts.read(around, 1, 1 + bytes.length);
}

test("reads what the bytes say, however often and whatever was read before", () => {
  const texts = new ShortTexts();
  const bytes = fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: SHORT_TEXT_BYTES_MAX, max: 127 }),
    fc.string({ unit: "grapheme", minLength: 1, maxLength: 4 }).map((text) => Buffer.from(text).subarray(0, 32)),
  );
  fc.assert(
    fc.property(fc.array(bytes, { maxLength: 100 }), (all) => {
      for (const one of [...all, ...all]) {
        expect(read(texts, one)).toBe(isWhole(one) ? Buffer.from(one).toString("latin1") : undefined);
      }
    }),
    { numRuns: 200 },
  );
});

// Cutting a grapheme may split a character; then it must be refused.
function isWhole(bytes: Uint8Array): boolean {
  return Buffer.from(Buffer.from(bytes).toString("utf8"), "utf8").equals(Buffer.from(bytes));
}

test("gives the same string for the same bytes", () => {
  const texts = new ShortTexts();
  const first = read(texts, Buffer.from("remote_address"));
  expect(read(texts, Buffer.from("remote_address"))).toBe(first);
});

test("keeps refusing bytes that are not UTF-8, also in the place of known text", () => {
  const texts = new ShortTexts();
  const bad = Buffer.from([0x61, 0xff]);
  expect([read(texts, bad), read(texts, bad)]).toEqual([undefined, undefined]);
  for (let i = 0; i < 10_000; i++) read(texts, Buffer.from(`${i}`));
  expect(read(texts, bad)).toBeUndefined();
});

test("keeps texts apart that take turns in one slot", () => {
  const texts = new ShortTexts();
  const all = Array.from({ length: 10_000 }, (_, i) => `value-${i}`);
  for (let turn = 0; turn < 2; turn++) {
    expect(all.map((text) => read(texts, Buffer.from(text)))).toEqual(all);
  }
});
