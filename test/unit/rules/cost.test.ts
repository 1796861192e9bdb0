// What hits cost, with and without a cost entry.

import { describe, expect, test } from "vitest";
import { AMOUNT_MAX, COST_ABOVE_ALL } from "../../../src/engine/base/units.ts";
import { Descriptor, oneByteOf } from "../../../src/engine/domain/request.ts";
import { costOf, parseWeight, refundOf } from "../../../src/engine/rules/cost.ts";

function descriptorWith(weight: string | undefined): Descriptor {
  const descriptor = new Descriptor();
  descriptor.addEntry("api_key", "k1");
  if (weight !== undefined) descriptor.addEntry("weight", oneByteOf(weight));
  return descriptor;
}

const COST = { entry: "weight", default: 3, max: 100, per: 1 };
/** Millionths come in, thousandths are counted. */
const PRICE = { entry: "weight", default: 2_500, max: 9_000_000_000, per: 1_000 };

describe("cost of hits", () => {
  // Promise(rules): A cost is 1 or read from an entry: the default if absent or not a number, at most `max`.
  test.each([
    { name: "is the hits without a cost entry", hits: 7, cost: undefined, weight: "5", expected: 7 },
    { name: "is hits times the entry's value", hits: 2, cost: COST, weight: "5", expected: 10 },
    { name: "of a peek is that of one hit", hits: 0, cost: COST, weight: "5", expected: 5 },
    { name: "takes the default when the entry is absent", hits: 1, cost: COST, weight: undefined, expected: 3 },
    { name: "takes the default for zero", hits: 1, cost: COST, weight: "0", expected: 3 },
    { name: "takes the default for zero with a fraction", hits: 1, cost: COST, weight: "0.9", expected: 3 },
    { name: "takes the default for a negative number", hits: 1, cost: COST, weight: "-4", expected: 3 },
    { name: "takes the default for no number", hits: 1, cost: COST, weight: "many", expected: 3 },
    { name: "takes the default for an empty value", hits: 1, cost: COST, weight: "", expected: 3 },
    { name: "takes the default for a number with a tail", hits: 1, cost: COST, weight: "5x", expected: 3 },
    { name: "cuts a fraction off", hits: 1, cost: COST, weight: "2.7", expected: 2 },
    { name: "caps the entry's value at max", hits: 2, cost: COST, weight: "101", expected: 200 },
    { name: "caps a huge entry at max", hits: 1, cost: COST, weight: "9".repeat(500), expected: 100 },
    {
      name: "never passes the cost above all limits",
      hits: AMOUNT_MAX,
      cost: COST,
      weight: "100",
      expected: COST_ABOVE_ALL,
    },
    { name: "of parts is whole units", hits: 1, cost: PRICE, weight: "7000", expected: 7 },
    { name: "of a part of a unit is a whole one", hits: 1, cost: PRICE, weight: "1", expected: 1 },
    { name: "is rounded up once, after hits have multiplied it", hits: 3, cost: PRICE, weight: "1001", expected: 4 },
    { name: "of a peek in parts is that of one hit", hits: 0, cost: PRICE, weight: "1001", expected: 2 },
    { name: "takes a default in parts", hits: 1, cost: PRICE, weight: "none", expected: 3 },
    { name: "reads parts beyond the largest amount", hits: 1, cost: PRICE, weight: "8000000001", expected: 8_000_001 },
    { name: "caps parts at max", hits: 1, cost: PRICE, weight: "9".repeat(30), expected: 9_000_000 },
    {
      name: "without an entry counts hits as parts",
      hits: 1_001,
      cost: { entry: undefined, default: 1, max: AMOUNT_MAX * 1_000, per: 1_000 },
      weight: "5000",
      expected: 2,
    },
    {
      name: "in parts never passes the cost above all limits",
      hits: 2 ** 63,
      cost: { ...PRICE, max: AMOUNT_MAX * 1_000_000, per: 1_000_000 },
      weight: "4294967295000000",
      expected: COST_ABOVE_ALL,
    },
  ])("$name", ({ hits, cost, weight, expected }) => {
    expect(costOf(hits, cost, descriptorWith(weight))).toBe(expected);
  });

  test.each([
    { name: "in hits", hits: 7, cost: undefined, expected: 7 },
    { name: "of none", hits: 0, cost: COST, expected: 0 },
    { name: "times the entry's value", hits: 2, cost: COST, expected: 10 },
    { name: "in parts is rounded down", hits: 399, cost: { ...COST, max: 5_000, per: 1_000 }, expected: 1 },
    { name: "of a part of a unit is nothing", hits: 1, cost: { ...COST, max: 5_000, per: 1_000 }, expected: 0 },
  ])("a refund $name", ({ hits, cost, expected }) => {
    expect(refundOf(hits, cost, descriptorWith("5"))).toBe(expected);
  });

  test.each(["1e3", "+5", " 5", "5 ", "0x10", ".5", "5.", "5.5.5", "Infinity", "NaN", "\u0665"])(
    "%j is no number",
    (text) => {
      expect(parseWeight(oneByteOf(text), AMOUNT_MAX)).toBe(0);
    },
  );
});
