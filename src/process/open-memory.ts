// The memory store's memory and its snapshots. The main thread makes them for all threads.

import type { Clock } from "../engine/base/clock.ts";
import { ConfigError } from "../engine/base/errors.ts";
import { hashKeyInUse } from "../engine/domain/key-bytes.ts";
import { HOLDS_IN_MEMORY_MAX } from "../engine/domain/limit.ts";
import type { Logger } from "../operate/telemetry/logger.ts";
import { LockHeldError } from "../stores/memory/snapshot/snapshot-lock.ts";
import { Snapshots } from "../stores/memory/snapshot/snapshots.ts";
import { type MemoryBounds, MemoryLayout, newSharedStore, type SharedStore } from "../stores/memory/store-memory.ts";
import type { Settings } from "./settings.ts";

/** Least time for the last snapshot, in milliseconds, however short SHUTDOWN_GRACE is. */
const LAST_SNAPSHOT_MS_MIN = 5_000;

const BYTES_PER_MEGABYTE = 1_000_000;

/** What threads that decide calls get; can be sent to another thread. */
export interface SharedMemory {
  readonly store: SharedStore;
  /** The key by which all threads must hash (useHashKey). */
  readonly hashKey: Uint8Array;
  /** The memory of the SnapshotStatus; undefined without MEMORY_SNAPSHOT. */
  readonly snapshots: SharedArrayBuffer | undefined;
}

interface OpenMemory {
  readonly shared: SharedMemory;
  /** Ends snapshots, with a last one if the process `wasServing`. Call it when no call is under way. */
  close(wasServing: boolean): Promise<void>;
}

interface MemoryOptions {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly logger: Logger;
}

function reserved(bounds: MemoryBounds): SharedStore {
  try {
    return newSharedStore(bounds);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const megabytes = Math.ceil(new MemoryLayout(bounds).bytes / BYTES_PER_MEGABYTE).toLocaleString("en");
    throw new ConfigError(
      "CONFIG_SETTINGS",
      `BUCKETS_MAX, SLIDING_LOG_BYTES_MAX: expected ${megabytes} MB of addresses for them and for holds, of which only what is used takes memory; the system does not give so much: lower them, or raise the limit on addresses (ulimit -v)`,
    );
  }
}

/**
 * Makes the memory and fills it from MEMORY_SNAPSHOT; undefined with another store. Call it before any key is hashed. Rejects with ConfigError
 * if the system has too few addresses, or if another process uses the file: both would grant the whole limit.
 */
export async function openMemory({ settings, clock, logger }: MemoryOptions): Promise<OpenMemory | undefined> {
  const { backendType, bucketsMax, slidingLogBytesMax, memorySnapshot: file, memorySnapshotIntervalMs } = settings;
  if (backendType !== "memory") return undefined;
  const bounds = { bucketsMax, logBytesMax: slidingLogBytesMax, holdsMax: HOLDS_IN_MEMORY_MAX, threadsMax: 1 };
  const store = reserved(bounds);
  const snapshots =
    file === undefined
      ? undefined
      : new Snapshots({ store, clock, file, intervalMs: memorySnapshotIntervalMs, log: logger });
  try {
    await snapshots?.open();
  } catch (error) {
    if (!(error instanceof LockHeldError)) throw error;
    throw new ConfigError(
      "CONFIG_SETTINGS",
      `MEMORY_SNAPSHOT: expected a file that no other process uses, got ${file}, in use by ${error.message}`,
    );
  }
  return {
    shared: { store, hashKey: hashKeyInUse(), snapshots: snapshots?.status.buffer },
    async close(wasServing) {
      if (wasServing) await snapshots?.close(Math.max(settings.shutdownGraceMs, LAST_SNAPSHOT_MS_MIN));
      else await snapshots?.abandon();
    },
  };
}
