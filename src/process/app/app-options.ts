// What a process is started with.

import type { Clock } from "../../engine/base/clock.ts";
import type { Logger } from "../../operate/telemetry/logger.ts";
import type { Settings } from "../settings.ts";
import type { WorkerLink } from "../workers/worker-link.ts";

export interface AppOptions {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly version: string;
  /** The channel to the supervisor, if this process is one of several workers (WORKERS). */
  readonly link?: WorkerLink | undefined;
}
