// The log that the settings ask for.

import type { Clock } from "../engine/base/clock.ts";
import { createLogger, type Logger } from "../operate/telemetry/logger.ts";
import { type Settings, secretsOf } from "./settings.ts";

export function openLog(settings: Settings, clock: Clock): Logger {
  const { logLevel: level, logFormat: format } = settings;
  return createLogger({ level, format, clock, secrets: secretsOf(settings) });
}
