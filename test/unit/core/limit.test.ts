// The numbers by which limits travel to the scripts of shared stores.

import { expect, test } from "vitest";
import { ALGORITHM_NAMES, Algorithm, COUNTER_NUMBER } from "../../../src/core/limit.ts";

test("every algorithm has a name at its number, and none has the number of counters", () => {
  const numbers: readonly number[] = Object.values(Algorithm);
  expect(numbers.map((number) => ALGORITHM_NAMES[number])).not.toContain(undefined);
  expect(ALGORITHM_NAMES.filter(Boolean)).toHaveLength(numbers.length);
  expect(numbers).not.toContain(COUNTER_NUMBER);
});
