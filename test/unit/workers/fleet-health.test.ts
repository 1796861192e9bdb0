// What one worker hears of the others.

import { expect, test } from "vitest";
import { othersOf } from "../../../src/workers/fleet-health.ts";

const worker = (number: number, troubles: Record<string, string> = {}, serves = true) => {
  return { number, serves, troubles, notes: { store: `slow ${number}` } };
};

test("names parts by worker, and leaves out the one who asks and those that take no calls", () => {
  const one = worker(1, { store: "away" });
  const all = [one, worker(2, { store: "away", rules: "none" }), worker(3, { rules: "none" }, false)];
  expect(othersOf(one, all, { count: 2, isStarting: false })).toEqual({
    troubles: { "worker 2: store": "away", "worker 2: rules": "none" },
    notes: { "worker 2: store": "slow 2" },
  });
});

test("missing workers are a trouble while the process starts, and a note when they are replaced later", () => {
  const one = worker(1);
  const all = [one, worker(2, {}, false)];
  const starting = othersOf(one, all, { count: 3, isStarting: true });
  expect(starting.troubles).toEqual({ workers: "2 of 3 workers are still starting" });
  expect(starting.notes).toEqual({});
  const later = othersOf(one, all, { count: 2, isStarting: false });
  expect(later.troubles).toEqual({});
  expect(later.notes).toEqual({ workers: "1 of 2 workers are being replaced and take no calls yet" });
});
