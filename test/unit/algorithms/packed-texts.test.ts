// Logs and holds as one text of a database's row: read back as they were, and told from texts that nobody has packed.

import fc from "fast-check";
import { expect, test } from "vitest";
import { BucketHolds, HoldBook } from "../../../src/algorithms/hold-book.ts";
import { packHolds, unpackHolds } from "../../../src/algorithms/hold-text.ts";
import { LogBlocks } from "../../../src/algorithms/log-blocks.ts";
import { addLog } from "../../../src/algorithms/log-copy.ts";
import { packLog, unpackLog } from "../../../src/algorithms/log-text.ts";
import { makeLimit } from "../../support/builders.ts";
import { runs } from "../../support/runs.ts";

const limit = makeLimit({ holdSeconds: 60 });

test("a log is read back with all its payments", () => {
  const payments = fc.array(fc.tuple(fc.integer({ min: 0, max: 1_000_000 }), fc.integer({ min: 1, max: 1_000 })), {
    minLength: 1,
    maxLength: 60,
  });
  fc.assert(
    fc.property(payments, (made) => {
      const numbers = Float64Array.from(made.sort(([one], [other]) => one - other).flat());
      const blocks = new LogBlocks();
      const text = packLog(blocks, addLog(blocks, numbers, 0, made.length));
      expect(packLog(blocks, unpackLog(blocks, text))).toBe(text);
      expect(text).toBe(made.flat().join());
    }),
    { numRuns: runs(100) },
  );
});

test.each(["", "x", "1", "1,2,3", "5,1,4,1", "1,0", "1,-1", "1.5,1", "-1,1", "1,4294967295,2,1", "1,1,"])(
  "%j is no log",
  (text) => {
    expect(unpackLog(new LogBlocks(), text)).toBe(0);
  },
);

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
