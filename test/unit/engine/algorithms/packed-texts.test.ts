// Logs and holds as one text of a database's row: read back as they were, and told from texts that nobody has packed.

import fc from "fast-check";
import { expect, test } from "vitest";
import { type BucketHolds, HoldBook } from "../../../../src/engine/algorithms/hold-book.ts";
import { LogState, unpackLog } from "../../../../src/engine/algorithms/log-state.ts";
import { keyedOf } from "../../../../src/engine/domain/key-bytes.ts";
import { packHolds, unpackHolds } from "../../../../src/stores/postgres/locked-rows.ts";
import { makeLimit } from "../../../support/builders.ts";
import { runs } from "../../../support/runs.ts";

const limit = makeLimit({ holdSeconds: 60 });
const KEY = keyedOf("k");

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
  const unit = fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code));
  const id = fc.string({ unit, maxLength: 64 });
  const book = new HoldBook(100);
  const other = new HoldBook(100);
  const hold = fc.record({
    id,
    cost: fc.nat({ max: 100 }),
    paidAtUs: fc.nat({ max: 50 }),
    endsAtUs: fc.integer({ min: 51, max: 99 }),
  });
  fc.assert(
    fc.property(fc.uniqueArray(hold, { selector: (one) => one.id, minLength: 1, maxLength: 10 }), (opened) => {
      book.clear();
      other.clear();
      for (const [i, one] of opened.entries()) {
        book.of(KEY)?.lows.notePayment(i);
        book.add(KEY, limit, limit.stats, one);
      }
      const holds = book.of(KEY) as BucketHolds;
      const text = packHolds(holds.lows.numbers(), book.live(holds));
      expect(text).toMatch(/^[ -~]*$/);
      expect(unpackHolds(other, KEY, limit, text)).toBe(true);
      const read = other.of(KEY) as BucketHolds;
      expect(other.live(read)).toEqual(book.live(holds));
      expect(read.lows.numbers()).toEqual(holds.lows.numbers());
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
  `[[],[["${"a".repeat(65)}",1,1,1,1]]]`,
])("%j is no text of holds, and adds none", (text) => {
  const book = new HoldBook(100);
  expect(unpackHolds(book, KEY, limit, text)).toBe(false);
  expect(book.of(KEY)).toBeUndefined();
});
