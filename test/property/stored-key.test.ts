// Keys and ids as stores keep them: short, and no two are kept as one, whatever bytes they are made of.

import fc from "fast-check";
import { expect, test } from "vitest";
import { keptId } from "../../src/engine/rules/hold.ts";
import { storedKey } from "../../src/stores/postgres/postgres-batch.ts";
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

const id = fc
  .tuple(fc.constantFrom("", "#", "##"), fc.string({ minLength: 1, maxLength: 130, size: "max" }))
  .map((two) => two.join(""));

interface Names {
  readonly name: string;
  readonly asked: fc.Arbitrary<string>;
  readonly keptAs: (asked: string) => string;
  readonly lengthMax: number;
  readonly text: RegExp;
}

// Promise(input): Two keys share a bucket only if they are equal byte by byte.
test.each<Names>([
  { name: "keys in rows of PostgreSQL", asked: key, keptAs: storedKey, lengthMax: 1_024, text: /^[ -~]*$/ },
  { name: "ids of holds", asked: id, keptAs: keptId, lengthMax: 64, text: /^/ },
])("$name are kept as one only if they are equal, those included that look as others are kept", (names) => {
  const { asked: one, keptAs, lengthMax, text } = names;
  fc.assert(
    fc.property(fc.array(one, { maxLength: 6 }), (first) => {
      const kept = new Map<string, string>();
      let asked = first;
      // What somebody asks for who has seen how the first are kept, and how those are.
      for (let round = 0; round < 3; round++) {
        for (const each of asked) {
          const short = keptAs(each);
          expect(kept.get(short) ?? each).toBe(each);
          kept.set(short, each);
          expect(short.length).toBeLessThanOrEqual(lengthMax);
          expect(short).toMatch(text);
        }
        asked = [...kept.keys()].flatMap((short) => [short, unescapedOnce(short)]);
      }
    }),
    { numRuns: runs(300) },
  );
});

/** What a percent or backslash escape of the text would stand for. */
function unescapedOnce(text: string): string {
  return text.replace(/[%\\]x?([0-9a-f]{2})/, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}
