// What a process is started with.

import type { Clock } from "../../base/clock.ts";
import type { LogOutput } from "../../operate/telemetry/log-output.ts";
import type { Logger } from "../../operate/telemetry/logger.ts";
import type { Settings } from "../../settings/settings.ts";

export interface AppOptions {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Where the log's lines go; undefined in tests that take them otherwise. */
  readonly logOutput?: LogOutput | undefined;
  readonly version: string;
}
