// What hits cost, with and without a cost entry.

import { describe, expect, test } from "vitest";
import { AMOUNT_MAX, COST_ABOVE_ALL } from "../../../../src/base/units.ts";
import { Descriptor, oneByteOf } from "../../../../src/engine/domain/request.ts";
import { costOf, parseWeight, refundOf } from "../../../../src/engine/rules/cost.ts";

function descriptorWith(weight: string | undefined): Descriptor {
  const descriptor = new Descriptor();
  descriptor.addEntry("api_key", "k1");
  if (weight !== undefined) descriptor.addEntry("weight", oneByteOf(weight));
  return descriptor;
}

type Cost = Parameters<typeof costOf>[1];
const COST = { entry: "weight", default: 3, max: 100, per: 1 };
/** Millionths come in, thousandths are counted. */
const PRICE = { entry: "weight", default: 2_500, max: 9_000_000_000, per: 1_000 };

describe("cost of hits", () => {
  // Promise(rules): A cost is 1 or read from an entry: the default if absent or not a number, at most `max`.
  test.each<[name: string, hits: number, Cost, weight: string | undefined, expected: number]>([
    ["is the hits without a cost entry", 7, undefined, "5", 7],
    ["is hits times the entry's value", 2, COST, "5", 10],
    ["of a peek is that of one hit", 0, COST, "5", 5],
    ["takes the default when the entry is absent", 1, COST, undefined, 3],
    ["takes the default for zero", 1, COST, "0", 3],
    ["takes the default for zero with a fraction", 1, COST, "0.0", 3],
    ["of a part of a hit is a whole one", 1, COST, "0.5", 1],
    ["takes the default for a negative number", 1, COST, "-4", 3],
    ["takes the default for no number", 1, COST, "many", 3],
    ["takes the default for an empty value", 1, COST, "", 3],
    ["takes the default for a number with a tail", 1, COST, "5x", 3],
    ["rounds a fraction up", 1, COST, "2.1", 3],
    ["rounds a fraction up before hits multiply it", 3, COST, "2.1", 9],
    ["caps the entry's value at max", 2, COST, "101", 200],
    ["caps a huge entry at max", 1, COST, "9".repeat(500), 100],
    ["never passes the cost above all limits", AMOUNT_MAX, COST, "100", COST_ABOVE_ALL],
    ["of parts is whole units", 1, PRICE, "7000", 7],
    ["of a part of a unit is a whole one", 1, PRICE, "1", 1],
    ["is rounded up once, after hits have multiplied it", 3, PRICE, "1001", 4],
    ["of a peek in parts is that of one hit", 0, PRICE, "1001", 2],
    ["takes a default in parts", 1, PRICE, "none", 3],
    ["reads parts beyond the largest amount", 1, PRICE, "8000000001", 8_000_001],
    ["caps parts at max", 1, PRICE, "9".repeat(30), 9_000_000],
    [
      "without an entry counts hits as parts",
      1_001,
      { entry: undefined, default: 1, max: AMOUNT_MAX * 1_000, per: 1_000 },
      "5000",
      2,
    ],
    [
      "in parts never passes the cost above all limits",
      2 ** 63,
      { ...PRICE, max: AMOUNT_MAX * 1_000_000, per: 1_000_000 },
      "4294967295000000",
      COST_ABOVE_ALL,
    ],
  ])("%s", (_, hits, cost, weight, expected) => {
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

  test.each([
    ["+100", 100],
    ["1e2", 100],
    ["1.25E+2", 125],
    ["1251e-1", 126],
    [".5", 1],
    ["5.", 5],
    ["1e400", AMOUNT_MAX],
    ["9007199254740993.5", AMOUNT_MAX],
    ["1e-400", 0],
  ])("%j is %d", (text, expected) => {
    expect(parseWeight(text, AMOUNT_MAX)).toBe(expected);
  });

  test.each([
    "e3",
    "1e",
    "++5",
    "+",
    ".",
    " 5",
    "5 ",
    "5\n",
    "0x10",
    "5.5.5",
    "1_00",
    "1,000",
    "Infinity",
    "NaN",
    "\u0665",
  ])("%j is no number", (text) => {
    expect(parseWeight(oneByteOf(text), AMOUNT_MAX)).toBe(0);
  });
});
