// Charts of the operator's page.

import { expect, test } from "vitest";
import { pathOf, scaleTop } from "../../../page/charts.mjs";

const many = (count: number, value: number) => Array.from({ length: count }, () => value);

test("a chart ends at its right edge, its samples are steps, and a gap divides its line", () => {
  const seconds = many(3, 5);
  const ends = [0, 5_000, 10_000];
  expect(pathOf([0, 10, 10], seconds, { ends: ends, spanMs: 900_000, scale: 2, isArea: false })).toBe(
    "M354.0 59.0H356.0L356.0 39.0H358.0L358.0 39.0H360.0",
  );
  expect(pathOf([5, null, 5], seconds, { ends: ends, spanMs: 900_000, scale: 1, isArea: false })).toBe(
    "M354.0 54.0H356.0M358.0 54.0H360.0",
  );
  expect(pathOf([1, null, 1], seconds, { ends: ends, spanMs: 900_000, scale: 1, isArea: true })).toBe(
    "M354.0 59.0H356.0V60H354.0ZM358.0 59.0H360.0V60H358.0Z",
  );
  expect(pathOf([], [], { ends: [], spanMs: 900_000, scale: 1, isArea: true })).toBe("");
});

test("the scale ends at the next round number", () => {
  expect([0, 0.3, 1, 1.1, 4, 6, 61, 1_001].map(scaleTop)).toEqual([1, 1, 1, 2, 4, 6, 70, 2_000]);
});
