// How many workers `auto` is in a container.

import { expect, test } from "vitest";
import { canHandOverSockets, workerCountOf } from "../../../src/process/workers/core-count.ts";
import { RUNS_NODE_24 } from "../../support/require-node24.ts";

test("a number is taken as it is, auto is at least one", () => {
  expect(workerCountOf(7, () => true)).toBe(7);
  expect(workerCountOf("auto", () => true)).toBeGreaterThanOrEqual(1);
});

test("where sockets can't be handed over, auto is one, and a number above that an error that names Node 24", () => {
  expect(workerCountOf(1, () => false)).toBe(1);
  expect(workerCountOf("auto", () => false)).toBe(1);
  expect(() => workerCountOf(2, () => false)).toThrow(/^WORKERS: expected 1 or auto, got 2: .* Node 24/);
});

test("no Node below 24 hands sockets over", () => {
  expect(canHandOverSockets() && !RUNS_NODE_24).toBe(false);
});
