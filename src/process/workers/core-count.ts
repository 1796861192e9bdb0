// The number of workers for WORKERS. For `auto` it is one for each core that this process may use. The CPU quota of a container
// counts, which some versions of Node ignore: a container of 2 cores on a machine of 64 must not start 64 workers.

import { readFileSync } from "node:fs";
import { Socket } from "node:net";
import { availableParallelism } from "node:os";
import { MessageChannel, type TransferListItem } from "node:worker_threads";
import { ConfigError } from "../../engine/base/errors.ts";
import { errorCode } from "../../engine/base/thrown.ts";

/** Files of cgroups, version 2 and version 1; in version 1 the second file holds the period. */
const QUOTA_FILES = [
  ["/sys/fs/cgroup/cpu.max"],
  ["/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"],
] as const;

/**
 * The number of workers for a value of WORKERS. Where connections can't be handed to threads, `auto` is 1, and a number above 1 a
 * ConfigError.
 */
export function workerCountOf(workers: number | "auto", canHandOver = canHandOverSockets): number {
  if (workers === 1) return 1;
  if (canHandOver()) {
    if (workers !== "auto") return workers;
    return Math.max(1, Math.min(availableParallelism(), cpuQuota(readQuietly) ?? Number.POSITIVE_INFINITY));
  }
  if (workers === "auto") return 1;
  const says = `WORKERS: expected 1 or auto, got ${workers}: several workers need Node 24 (a recent one) or newer, and this is ${process.version}`;
  throw new ConfigError("CONFIG_SETTINGS", says);
}

/**
 * Tries to hand a socket to another thread. It has no connection, so that no Node takes it: a Node that can't hand over any says that a
 * socket is no object to transfer, and another that this one is not in the state for it.
 */
export function canHandOverSockets(): boolean {
  const { port1 } = new MessageChannel();
  const socket = new Socket();
  try {
    port1.postMessage(socket, [socket as unknown as TransferListItem]);
    return true;
  } catch (error) {
    return errorCode(error) === "ERR_WORKER_HANDLE_NOT_TRANSFERABLE";
  } finally {
    port1.close();
    socket.destroy();
  }
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
