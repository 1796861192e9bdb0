// What a process is started with.

import type { Clock } from "../../engine/base/clock.ts";
import type { Logger } from "../../operate/telemetry/logger.ts";
import type { SharedMemory } from "../open-memory.ts";
import type { Settings } from "../settings.ts";

export interface AppOptions {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly version: string;
  /** The memory store's memory (open-memory.ts). */
  readonly memory?: SharedMemory | undefined;
}
