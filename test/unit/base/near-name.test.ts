// Guesses for misspelt names.

import * as fc from "fast-check";
import { expect, test } from "vitest";
import { editsBetween, nearestName } from "../../../src/base/near-name.ts";

test.each([
  { name: "a swap of neighbours", from: "REDIS_ULR", expected: "REDIS_URL" },
  { name: "a missing letter", from: "brst", expected: "burst" },
  { name: "another case", from: "Unit", expected: "unit" },
  { name: "nothing near", from: "colour", expected: undefined },
  { name: "two edits in a short word", from: "xnix", expected: undefined },
])("finds $name", ({ from, expected }) => {
  expect(nearestName(from, ["burst", "unit", "REDIS_URL"])).toBe(expected);
});

test("edits are symmetric, zero for equals only, and at most the longer length", () => {
  const word = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 6 });
  fc.assert(
    fc.property(word, word, (a, b) => {
      const edits = editsBetween(a, b);
      expect(editsBetween(b, a)).toBe(edits);
      expect(edits === 0).toBe(a === b);
      expect(edits).toBeLessThanOrEqual(Math.max(a.length, b.length));
    }),
  );
});
