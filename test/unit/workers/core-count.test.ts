// How many workers `auto` is in a container.

import { expect, test } from "vitest";
import { canHandOverSockets, cpuQuota, workerCountOf } from "../../../src/process/workers/core-count.ts";
import { RUNS_NODE_24 } from "../../support/require-node24.ts";

const V2 = "/sys/fs/cgroup/cpu.max";
const V1 = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us";
const V1_PERIOD = "/sys/fs/cgroup/cpu/cpu.cfs_period_us";

test.each([
  { name: "two cores", files: { [V2]: "200000 100000\n" }, cores: 2 },
  { name: "two and a half, rounded down", files: { [V2]: "250000 100000\n" }, cores: 2 },
  { name: "half a core, which is one", files: { [V2]: "50000 100000\n" }, cores: 1 },
  { name: "no bound", files: { [V2]: "max 100000\n" }, cores: undefined },
  { name: "version 1, four cores", files: { [V1]: "400000\n", [V1_PERIOD]: "100000\n" }, cores: 4 },
  { name: "version 1 without a bound", files: { [V1]: "-1\n", [V1_PERIOD]: "100000\n" }, cores: undefined },
  { name: "no control groups", files: {}, cores: undefined },
  { name: "nonsense", files: { [V2]: "many\n" }, cores: undefined },
])("a control group with $name", ({ files, cores }) => {
  const texts: Readonly<Record<string, string>> = files;
  expect(cpuQuota((file) => texts[file])).toBe(cores);
});

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
