// Makes the snapshots that MEMORY_SNAPSHOT asks for, and opens and closes them.

import { ConfigError } from "../../base/errors.ts";
import type { Store } from "../../engine/domain/store.ts";
import type { Settings } from "../../settings/settings.ts";
import { MemoryStore } from "../../stores/memory/memory-store.ts";
import type { Snapshots } from "../../stores/memory/snapshot/snapshots.ts";
import type { AppOptions } from "./app-options.ts";

/** Least time for the last snapshot, in milliseconds, however short SHUTDOWN_GRACE is. */
const LAST_SNAPSHOT_MS_MIN = 5_000;

/** Undefined with another store, or without MEMORY_SNAPSHOT. */
export async function makeSnapshots(
  { settings, clock, logger: log }: AppOptions,
  store: Store,
): Promise<Snapshots | undefined> {
  const { memorySnapshot: file, memorySnapshotIntervalMs: intervalMs } = settings;
  if (file === undefined || !(store instanceof MemoryStore)) return undefined;
  const { Snapshots } = await import("../../stores/memory/snapshot/snapshots.ts");
  return new Snapshots({ store, clock, file, intervalMs, log });
}

/**
 * Fills the store from the file. Call it before any bucket key is hashed. Rejects with ConfigError if another process
 * uses the file: both would grant the whole limit.
 */
export async function openSnapshots(snapshots: Snapshots | undefined, { memorySnapshot }: Settings): Promise<void> {
  try {
    await snapshots?.open();
  } catch (error) {
    const { LockHeldError } = await import("../../stores/memory/snapshot/snapshot-lock.ts");
    if (!(error instanceof LockHeldError)) throw error;
    throw new ConfigError(
      "CONFIG_SETTINGS",
      `MEMORY_SNAPSHOT: expected a file that no other process uses, got ${memorySnapshot}, in use by ${error.message}`,
    );
  }
}

/** Writes the last snapshot. Call it when no call is under way any more, so that it is exact. */
export async function closeSnapshots(snapshots: Snapshots | undefined, { shutdownGraceMs }: Settings): Promise<void> {
  await snapshots?.close(Math.max(shutdownGraceMs, LAST_SNAPSHOT_MS_MIN));
}
