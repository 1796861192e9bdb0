// How many workers `auto` is: one for each core that this process may use. A container's share of the CPU counts too, which
// not every version of Node looks at: on a machine of 64 cores a container of 2 must not start 64 workers.

import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

/** Version 2 and version 1 of control groups; the second file of version 1 is the period. */
const QUOTA_FILES = [
  ["/sys/fs/cgroup/cpu.max"],
  ["/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"],
] as const;

/** Workers to run for a setting of WORKERS. */
export function workerCountOf(workers: number | "auto"): number {
  if (workers !== "auto") return workers;
  return Math.max(1, Math.min(availableParallelism(), cpuQuota(readQuietly) ?? Number.POSITIVE_INFINITY));
}

/** Whole cores that a control group grants; undefined without a bound. Rounded down: half a core is no place for a worker. */
export function cpuQuota(read: (file: string) => string | undefined): number | undefined {
  for (const files of QUOTA_FILES) {
    const [quota, period] = files
      .map((file) => read(file)?.trim() ?? "")
      .join(" ")
      .split(" ");
    const cores = Number(quota) / Number(period);
    if (Number.isFinite(cores) && cores > 0) return Math.max(1, Math.floor(cores));
  }
  return undefined;
}

function readQuietly(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    // No such file: no such bound.
    return undefined;
  }
}
