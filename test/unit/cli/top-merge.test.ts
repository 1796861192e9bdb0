// Sums of several processes' top keys: what is shown is never too low, and what is certain never too high, whatever each of them lists.

import fc from "fast-check";
import { expect, test } from "vitest";
import { mergeTops } from "../../../src/tools/cli/top-merge.ts";
import type { TopAnswer } from "../../../src/tools/cli/top-text.ts";
import { runs } from "../../support/runs.ts";

const KEYS = ["a", "b", "c", "d", "e", "f"];

/** What a process counted of each key, how much too high it shows that, and how many keys it lists. */
const PROCESS = fc.record({
  counts: fc.array(fc.record({ passed: fc.nat(20), refused: fc.nat(20), over: fc.nat(5) }), {
    minLength: KEYS.length,
    maxLength: KEYS.length,
  }),
  listed: fc.integer({ min: 0, max: KEYS.length }),
});
type Process = typeof PROCESS extends fc.Arbitrary<infer T> ? T : never;

function answerOf({ counts, listed }: Process, by: "asked" | "refused"): TopAnswer {
  const all = counts.map(({ passed, refused, over }, i) => ({
    domain: "edge",
    rule: "user",
    limit: "",
    key: KEYS[i] as string,
    asked: passed + refused + over,
    refused: refused + over,
    overcount: over,
    asked_overcount: over,
    refused_overcount: over,
    refused_since: refused > 0 ? `2026-01-01T00:00:0${i}.000Z` : null,
    last_refused: refused > 0 ? `2026-01-01T00:00:1${i}.000Z` : null,
  }));
  all.sort((one, other) => other[by] - one[by]);
  const rest = all.slice(listed);
  return {
    at: "2026-01-01T00:01:00.000Z",
    from: "2026-01-01T00:00:00.000Z",
    window: "minute",
    by,
    asked: counts.reduce((sum, { passed, refused }) => sum + passed + refused, 0),
    refused: counts.reduce((sum, { refused }) => sum + refused, 0),
    keys: all.slice(0, listed),
    rest_asked: Math.max(0, ...rest.map(({ asked }) => asked)),
    rest_refused: Math.max(0, ...rest.map(({ refused }) => refused)),
  };
}

test("sums of several processes hold the true count between the least and the most that they show", () => {
  const orders = fc.constantFrom("asked" as const, "refused" as const);
  fc.assert(
    fc.property(
      fc.array(PROCESS, { minLength: 1, maxLength: 4 }),
      orders,
      fc.integer({ min: 1, max: 8 }),
      (all, by, most) => {
        const merged = mergeTops(
          all.map((process) => answerOf(process, by)),
          most,
        );
        const shown = new Set(merged?.keys.map(({ key }) => key));
        for (const [i, name] of KEYS.entries()) {
          const refused = all.reduce((sum, { counts }) => sum + (counts[i]?.refused ?? 0), 0);
          const asked = all.reduce((sum, { counts }) => sum + (counts[i]?.passed ?? 0), refused);
          const key = merged?.keys.find((each) => each.key === name);
          const [mostAsked, mostRefused] = shown.has(name)
            ? [key?.asked ?? 0, key?.refused ?? 0]
            : [merged?.rest_asked ?? 0, merged?.rest_refused ?? 0];
          expect(mostAsked).toBeGreaterThanOrEqual(asked);
          expect(mostRefused).toBeGreaterThanOrEqual(refused);
          if (key === undefined) continue;
          expect(key.asked - key.asked_overcount).toBeLessThanOrEqual(asked);
          expect(key.refused - key.refused_overcount).toBeLessThanOrEqual(refused);
        }
        expect(merged?.keys.length).toBeLessThanOrEqual(most);
        expect(merged).toMatchObject({
          asked: all.reduce((sum, each) => sum + answerOf(each, by).asked, 0),
          processes: all.length,
        });
      },
    ),
    { numRuns: runs(200) },
  );
});
