// The number of workers for WORKERS=auto: one for each core that this process may use. The CPU quota of a container counts, which
// some versions of Node ignore: a container of 2 cores on a machine of 64 must not start 64 workers.

import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

/** Files of cgroups, version 2 and version 1; in version 1 the second file holds the period. */
const QUOTA_FILES = [
  ["/sys/fs/cgroup/cpu.max"],
  ["/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"],
] as const;

/** The number of workers for a value of WORKERS. */
export function workerCountOf(workers: number | "auto"): number {
  if (workers !== "auto") return workers;
  return Math.max(1, Math.min(availableParallelism(), cpuQuota(readQuietly) ?? Number.POSITIVE_INFINITY));
}

/** Whole cores of a cgroup's quota, rounded down but at least 1; undefined without a quota. */
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
    // Without the file there is no quota of that version.
    return undefined;
  }
}
