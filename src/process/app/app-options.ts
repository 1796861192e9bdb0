// What a process is started with.

import type { Clock } from "../../engine/base/clock.ts";
import type { SharedCounts } from "../../engine/base/shared-counts.ts";
import type { SharedRuntimeTable } from "../../engine/runtime/runtime-table.ts";
import type { Logger } from "../../operate/telemetry/logger.ts";
import type { SharedMemory } from "../open-memory.ts";
import type { Settings } from "../settings.ts";
import type { WorkerLink } from "../workers/worker-link.ts";

export interface AppOptions {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly version: string;
  /** The counters of all threads. */
  readonly counts: SharedCounts;
  /** The memory store's memory, which all threads share (open-memory.ts). */
  readonly memory?: SharedMemory | undefined;
  /** Limits at run time, which all threads share. Default: a table of this thread's own. */
  readonly runtime?: SharedRuntimeTable | undefined;
  /** What joins it with the other workers, if this thread is one of several (WORKERS). */
  readonly link?: WorkerLink | undefined;
}
