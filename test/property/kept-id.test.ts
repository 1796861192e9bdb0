// A hold's id as stores keep it: short, and no two ids are kept as one.

import fc from "fast-check";
import { expect, test } from "vitest";
import { keptId } from "../../src/engine/rules/hold.ts";
import { runs } from "../support/runs.ts";

const id = fc
  .tuple(fc.constantFrom("", "#", "##"), fc.string({ minLength: 1, maxLength: 130, size: "max" }))
  .map((two) => two.join(""));

test("ids are kept apart, those included that look as others are kept", () => {
  fc.assert(
    fc.property(fc.array(id, { maxLength: 6 }), (ids) => {
      const kept = new Map<string, string>();
      let asked = ids;
      // What somebody asks for who has seen how the first are kept, and how those are.
      for (let round = 0; round < 3; round++) {
        for (const one of asked) {
          const short = keptId(one);
          expect(kept.get(short) ?? one).toBe(one);
          kept.set(short, one);
          expect(short.length).toBeLessThanOrEqual(64);
        }
        asked = [...kept.keys()];
      }
    }),
    { numRuns: runs(300) },
  );
});
