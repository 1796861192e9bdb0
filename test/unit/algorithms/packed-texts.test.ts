// Logs and holds as one text of a database's row: read back as they were, and told from texts that nobody has packed.

import fc from "fast-check";
import { expect, test } from "vitest";
import { BucketHolds, HoldBook, packHolds, unpackHolds } from "../../../src/engine/algorithms/hold-book.ts";
import { LogState, unpackLog } from "../../../src/engine/algorithms/log-state.ts";
import { makeLimit } from "../../support/builders.ts";
import { runs } from "../../support/runs.ts";

const limit = makeLimit({ holdSeconds: 60 });

test.each([
  "",
  "x",
  "0",
  "0,2",
  "0,2,x",
  "0,5,1,4,2",
  "0,1,0",
  "3,1,3",
  "0,1.5,1",
  "-1,1,1",
  "0,1,4294967296",
  "0,1,1,",
])("%j is no log", (text) => {
  expect(unpackLog(text, new LogState())).toBe(false);
});

test("holds are read back in ASCII with their ids of all bytes, their ends and their lows", () => {
  const id = fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)) });
  const hold = fc.record({
    id,
    cost: fc.nat({ max: 100 }),
    paidAtUs: fc.nat({ max: 50 }),
    endsAtUs: fc.integer({ min: 51, max: 99 }),
  });
  fc.assert(
    fc.property(fc.uniqueArray(hold, { selector: (one) => one.id, minLength: 1, maxLength: 10 }), (opened) => {
      const holds = new BucketHolds("k", limit);
      for (const [i, one] of opened.entries()) {
        holds.lows.notePayment(i);
        holds.add(one);
      }
      const text = packHolds(holds);
      expect(text).toMatch(/^[ -~]*$/);
      const book = new HoldBook();
      expect(unpackHolds(book, "k", limit, text)).toBe(true);
      expect(book.of("k")?.live()).toEqual(holds.live());
      expect(book.of("k")?.lows.numbers()).toEqual(holds.lows.numbers());
    }),
    { numRuns: runs(100) },
  );
});

test.each([
  "",
  "{",
  "null",
  "[]",
  "[[],[],[]]",
  "[[1.5],[]]",
  '[[],[["a",1,2,3]]]',
  "[[],[[1,1,1,1,1]]]",
  '[["1"],[]]',
])("%j is no text of holds, and adds none", (text) => {
  const book = new HoldBook();
  expect(unpackHolds(book, "k", limit, text)).toBe(false);
  expect(book.of("k")).toBeUndefined();
});
