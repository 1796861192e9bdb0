// Connects the snapshots of the memory store with settings, log and health pages.

import { ConfigError } from "../../engine/base/errors.ts";
import type { HealthState } from "../../engine/base/health.ts";
import { isoTime } from "../../engine/base/units.ts";
import { MemoryStore } from "../../stores/memory/memory-store.ts";
import { LockHeldError } from "../../stores/memory/snapshot/snapshot-lock.ts";
import { Snapshots } from "../../stores/memory/snapshot/snapshots.ts";
import type { Store } from "../../stores/store.ts";
import type { AppOptions } from "./app-options.ts";

/** The snapshots that MEMORY_SNAPSHOT asks for; undefined without it or with another store. Reads nothing yet. */
export function makeSnapshots(
  { settings, clock, logger }: AppOptions,
  health: HealthState,
  store: Store,
): Snapshots | undefined {
  const { memorySnapshot: file, memorySnapshotIntervalMs: intervalMs } = settings;
  if (file === undefined || !(store instanceof MemoryStore)) return undefined;
  const onTrouble = (trouble: string | undefined) => health.setNote("snapshot", trouble);
  return new Snapshots({ store: store.shared, clock, file, intervalMs, log: logger, onTrouble });
}

/** Fills the store from the file. Rejects with ConfigError if another process uses the file: each would grant the whole limit. */
export async function openSnapshots(snapshots: Snapshots | undefined): Promise<void> {
  try {
    await snapshots?.open();
  } catch (error) {
    if (!(error instanceof LockHeldError)) throw error;
    const file = snapshots?.status.file;
    throw new ConfigError(
      "CONFIG_SETTINGS",
      `MEMORY_SNAPSHOT: expected a file that no other process uses, got ${file}, in use by ${error.message}`,
    );
  }
}

/** The snapshots' part of `/config`; undefined without snapshots. */
export function snapshotView(snapshots: Snapshots | undefined): object | undefined {
  if (snapshots === undefined) return undefined;
  const { file, beganAtUs, bytes, seconds, written, failed, refused, trouble } = snapshots.status;
  const writtenAt = beganAtUs === undefined ? null : isoTime(beganAtUs);
  return { file, written_at: writtenAt, bytes, seconds, written, failed, refused, last_error: trouble ?? null };
}
