// What all workers together say of their health.

import { expect, test } from "vitest";
import { joinHealth, workersForCalls } from "../../../src/process/workers/fleet-health.ts";

const worker = (number: number, troubles: Record<string, string> = {}, serves = true) => {
  return { number, serves, troubles, notes: {} };
};
const RUNNING = { count: 3, isStarting: false };

test("what all say alike is said once; the rest names the workers", () => {
  const all = [
    worker(1, { store: "away", certificates: "old" }),
    worker(2, { store: "away", certificates: "wrong" }),
    worker(3, { store: "away", certificates: "old" }),
  ];
  expect(joinHealth(all, RUNNING).troubles).toEqual({
    store: "away",
    certificates: "in worker 1 and 3 of 3: old; in worker 2 of 3: wrong",
  });
  const [one, two] = all as [(typeof all)[0], (typeof all)[0]];
  const noted = joinHealth([{ ...one, troubles: {}, notes: { store: "slow" } }, two], { count: 2, isStarting: false });
  expect(noted).toEqual({
    troubles: { store: "in worker 2 of 2: away", certificates: "in worker 2 of 2: wrong" },
    notes: { store: "in worker 1 of 2: slow" },
  });
});

test("a worker without rules is a note if others have theirs, and gets no calls; all without are a trouble", () => {
  const one = worker(1);
  const bare = worker(2, { rules: "none" });
  const other = worker(3, { rules: "none" });
  expect(joinHealth([one, bare], { count: 2, isStarting: false })).toEqual({
    troubles: {},
    notes: { rules: "in worker 2 of 2: none" },
  });
  expect(workersForCalls([one, bare, worker(3, {}, false)])).toEqual([one]);
  expect(joinHealth([bare, other], { count: 2, isStarting: false }).troubles).toEqual({ rules: "none" });
  expect(workersForCalls([bare, other])).toEqual([bare, other]);
});

test("missing workers are a trouble while the process starts, or if none serves, and a note when they are replaced", () => {
  const all = [worker(1), worker(2, { start: "it starts" }, false)];
  expect(joinHealth(all, { count: 3, isStarting: true })).toEqual({
    troubles: { workers: "2 of 3 workers are still starting", start: "in worker 2 of 3: it starts" },
    notes: {},
  });
  expect(joinHealth(all, { count: 2, isStarting: false })).toEqual({
    troubles: {},
    notes: { workers: "1 of 2 workers are being replaced and accept no calls yet" },
  });
  expect(joinHealth([], { count: 2, isStarting: false }).troubles).toHaveProperty("workers");
});
