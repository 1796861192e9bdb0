// What one worker hears of the others.

import { expect, test } from "vitest";
import { othersOf } from "../../../src/workers/fleet-health.ts";

const worker = (number: number, troubles: Record<string, string> = {}, serves = true) => {
  return { number, serves, troubles, notes: { store: `slow ${number}` } };
};

test("names parts by worker, and leaves out the one who asks and those that take no calls", () => {
  const one = worker(1, { store: "away" });
  const all = [one, worker(2, { store: "away", rules: "none" }), worker(3, { rules: "none" }, false)];
  expect(othersOf(one, all, 0)).toEqual({
    troubles: { "worker 2: store": "away", "worker 2: rules": "none" },
    notes: { "worker 2: store": "slow 2" },
  });
});

test("while the process starts, missing workers are a trouble; one that is replaced later is not", () => {
  const one = worker(1);
  const all = [one, worker(2, {}, false)];
  expect(othersOf(one, all, 3).troubles).toEqual({ workers: "2 of 3 workers are still starting" });
  expect(othersOf(one, all, 0).troubles).toEqual({});
});
