// A bucket's key as PostgreSQL has it: no two keys share a row, whatever bytes they are made of.

import fc from "fast-check";
import { expect, test } from "vitest";
import { storedKey } from "../../src/stores/postgres/batch.ts";
import { runs } from "../support/runs.ts";

// Keys of counters are whatever callers send. So: every byte, what escapes are written with, and lengths on both sides of
// the one from which on a key is hashed.
const byte = fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code));
const piece = fc.oneof(
  byte,
  fc.constantFrom("\\", "%", "#", "x", "\\x", "\\#", "%#", "c3", "a9", "\xc3\xa9", "%c3%a9", " ", '"', "{", ",", "}"),
);
const long = fc
  .tuple(fc.constantFrom("a", "\\", "\xff"), fc.integer({ min: 240, max: 1_100 }))
  .map(([unit, count]) => unit.repeat(count));
const key = fc
  .tuple(fc.array(piece, { maxLength: 6 }), fc.option(long, { nil: "" }), fc.array(piece, { maxLength: 6 }))
  .map(([before, middle, after]) => before.join("") + middle + after.join(""));

// Promise(input): Two keys share a bucket only if they are equal byte by byte.
test("keys share a row only if they are equal, those included that look like other keys' rows", () => {
  fc.assert(
    fc.property(fc.array(key, { maxLength: 6 }), (keys) => {
      const rows = new Map<string, string>();
      let asked = keys;
      // What somebody asks for who has seen the rows, and the rows of these.
      for (let round = 0; round < 3; round++) {
        for (const one of asked) {
          const row = storedKey(one);
          expect(rows.get(row) ?? one).toBe(one);
          rows.set(row, one);
          expect(row.length).toBeLessThanOrEqual(1_024);
          expect(row).toMatch(/^[ -~]*$/);
        }
        asked = [...rows.keys()].flatMap((row) => [row, unescapedOnce(row)]);
      }
    }),
    { numRuns: runs(300) },
  );
});

/** What a percent or backslash escape of the text would stand for. */
function unescapedOnce(text: string): string {
  return text.replace(/[%\\]x?([0-9a-f]{2})/, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}
