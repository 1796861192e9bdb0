// The log that the settings ask for, of the process or of one of its workers.

import type { Clock } from "../engine/base/clock.ts";
import { createLogger, type Logger } from "../operate/telemetry/logger.ts";
import { type Settings, secretsOf } from "./settings.ts";

/** `worker`: the number in every line. */
export function openLog(settings: Settings, clock: Clock, worker?: number): Logger {
  const { logLevel: level, logFormat: format } = settings;
  return createLogger({ level, format, clock, worker, secrets: secretsOf(settings) });
}
