// The numbers by which limits travel to the scripts of shared stores.

import { expect, test } from "vitest";
import { ALGORITHMS, COUNTER_NUMBER } from "../../../src/engine/domain/limit.ts";

test("no algorithm has the number of counters", () => {
  expect(ALGORITHMS).not.toContain(COUNTER_NUMBER);
  expect(new Set(ALGORITHMS).size).toBe(ALGORITHMS.length);
});
