// Remembered texts are always those of the bytes asked about.

import fc from "fast-check";
import { expect, test } from "vitest";
import { SHORT_TEXT_BYTES_MAX, TextCache } from "../../../src/base/wire.ts";
import { runs } from "../../support/runs.ts";

function read(texts: TextCache, bytes: Uint8Array): string {
  // Bytes on both sides that are not the text's.
  const around = Buffer.concat([Buffer.from("<"), bytes, Buffer.from(">")]);
  return texts.read(around, 1, 1 + bytes.length);
}

test("reads what the bytes say, however often and whatever was read before", () => {
  const texts = new TextCache();
  const bytes = fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: SHORT_TEXT_BYTES_MAX }),
    fc.uint8Array({ minLength: 1, maxLength: 2 }),
  );
  fc.assert(
    fc.property(fc.array(bytes, { maxLength: 100 }), (all) => {
      for (const one of [...all, ...all]) {
        expect(read(texts, one)).toBe(Buffer.from(one).toString("latin1"));
      }
    }),
    { numRuns: runs(200) },
  );
});
