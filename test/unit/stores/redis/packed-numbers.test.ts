// Numbers on their way to the script and back: the same doubles, whatever their number, and nobody else's.

import fc from "fast-check";
import { expect, test } from "vitest";
import { packNumbers, unpackNumbers } from "../../../../src/stores/redis/redis-batch.ts";
import { runs } from "../../../support/runs.ts";

/** The numbers as the scripts read and write them: struct's `<d`, one after the other. */
function written(numbers: readonly number[]): Buffer {
  const bytes = Buffer.alloc(numbers.length * 8);
  for (const [i, number] of numbers.entries()) bytes.writeDoubleLE(number, i * 8);
  return bytes;
}

const number = fc.oneof(fc.double(), fc.maxSafeInteger(), fc.constantFrom(0, -0, Number.NaN, Number.POSITIVE_INFINITY));
/** Few, and as many as make more room necessary, once and again. */
const numbers = fc.oneof(
  fc.array(number, { maxLength: 20 }),
  fc.integer({ min: 1_000, max: 9_000 }).map((count) => Array.from({ length: count }, (_, i) => i * 1.5 - 7)),
);

test("numbers are packed as little-endian doubles", () => {
  const check = (given: readonly number[]) => {
    expect(Buffer.from(packNumbers(given), "latin1").equals(written(given))).toBe(true);
  };
  fc.assert(fc.property(numbers, check), { numRuns: runs(200) });
});

test("a reply has the numbers that were written, wherever in memory it lies, and keeps them when others come", () => {
  const check = (given: readonly number[], others: readonly number[], offset: number) => {
    const memory = Buffer.alloc(given.length * 8 + offset);
    written(given).copy(memory, offset);
    const read = unpackNumbers(memory.subarray(offset));
    unpackNumbers(written(others));
    packNumbers(others);
    expect(read).toEqual(given);
  };
  fc.assert(fc.property(numbers, numbers, fc.nat({ max: 9 }), check), { numRuns: runs(200) });
});

test.each([
  ["no bytes", "a word"],
  ["none", null],
  ["seven bytes", Buffer.alloc(7)],
  ["longer than any of ours", Buffer.alloc(8 * 131_073)],
])("a reply that is %s is no reply", (_what, reply) => {
  expect(unpackNumbers(reply)).toBeUndefined();
});
