// The log that the settings ask for.

import type { Clock } from "../base/clock.ts";
import { LogOutput } from "../operate/telemetry/log-output.ts";
import { createLogger, type Logger } from "../operate/telemetry/logger.ts";
import { type Settings, secretsOf } from "../settings/settings.ts";

/** The log, and its end at standard output. */
export function openLog(settings: Settings, clock: Clock): { readonly logger: Logger; readonly logOutput: LogOutput } {
  const { logLevel: level, logFormat: format } = settings;
  const logOutput = LogOutput.of(1);
  const write = (line: string) => logOutput.write(line);
  return { logger: createLogger({ level, format, clock, secrets: secretsOf(settings), write }), logOutput };
}
