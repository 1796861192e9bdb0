// What one worker hears of the others.

import { expect, test } from "vitest";
import { othersOf, workersForCalls } from "../../../src/process/workers/fleet-health.ts";

const worker = (number: number, troubles: Record<string, string> = {}, serves = true) => {
  return { number, serves, troubles, notes: { store: `slow ${number}` } };
};

test("a worker without rules is a note beside one that has its rules, and gets no calls; all without are a trouble", () => {
  const one = worker(1);
  const bare = worker(2, { rules: "none" });
  expect(othersOf(one, [one, bare], { count: 2, isStarting: false })).toEqual({
    troubles: {},
    notes: { "worker 2: store": "slow 2", "worker 2: rules": "none" },
  });
  expect(workersForCalls([one, bare, worker(3, {}, false)])).toEqual([one]);
  expect(othersOf(one, [one, bare], { count: 2, isStarting: true }).troubles).toEqual({ "worker 2: rules": "none" });
  const other = worker(3, { rules: "none" });
  expect(othersOf(other, [bare, other], { count: 2, isStarting: false }).troubles).toEqual({
    "worker 2: rules": "none",
  });
  expect(workersForCalls([bare, other])).toEqual([bare, other]);
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
