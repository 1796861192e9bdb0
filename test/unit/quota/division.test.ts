// How a rate and whole tokens are divided.

import { describe, expect, test } from "vitest";
import { divideRate, divideTokens } from "../../../src/quota/division.ts";

const NEW = { demand: Number.POSITIVE_INFINITY, isHungry: true };
const calm = (demand: number) => ({ demand, isHungry: false });
const hungry = (demand: number) => ({ demand, isHungry: true });

describe("a rate", () => {
  test.each<[name: string, floor: number, demands: Parameters<typeof divideRate>[2], parts: readonly number[]]>([
    ["of nobody is nothing", 10, [], []],
    ["goes to the only one that wants more than it", 10, [hungry(2_000)], [1_000]],
    ["is shared equally by new ones", 10, [NEW, NEW, NEW], [333, 333, 334]],
    ["gives a small demand first, with a little room", 10, [calm(100), hungry(5_000)], [104, 896]],
    ["leaves what nobody wants to callers that ask", 10, [calm(100), calm(200)], [125, 250]],
    ["gives those that were refused twice what they asked, if it is there", 10, [hungry(100), calm(200)], [200, 250]],
    ["keeps a floor for idle ones", 10, [calm(0), calm(0), hungry(5_000)], [10, 10, 980]],
    ["shares less than the floors equally", 600, [calm(0), calm(0)], [500, 500]],
  ])("%s", (_, floor, demands, parts) => {
    expect(divideRate(1_000, floor, demands)).toEqual(parts);
  });
});

describe("whole tokens", () => {
  test.each<[tokens: number, rates: readonly number[], parts: readonly number[]]>([
    [25, [100, 300], [6, 18]],
    [2, [1, 1_000], [1, 1]],
    [5, [0, 0], [1, 1]],
  ])("%i by rates %j are %j", (tokens, rates, parts) => {
    expect(divideTokens(tokens, rates)).toEqual(parts);
  });
});
