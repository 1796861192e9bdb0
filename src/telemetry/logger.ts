// The process's log, by pino: one JSON object per line, or lines for people. Secrets are taken out of every line.

import { destination, type Logger as PinoLogger, pino } from "pino";
import type { Clock } from "../core/clock.ts";
import { isoTime } from "../core/units.ts";
import { visibleJson } from "../core/visible.ts";
import { formatLogLine } from "./log-line.ts";

export type Logger = PinoLogger;

export interface LoggerOptions {
  readonly level: "fatal" | "error" | "warn" | "info" | "debug" | "trace" | "silent";
  readonly format: "json" | "text";
  readonly clock: Clock;
  /** Number of the worker that writes, in every line; undefined where there is one process. */
  readonly worker?: number | undefined;
  /** Texts that no line may hold, such as passwords; those under four characters are left alone. */
  readonly secrets: readonly string[];
  /** Takes each finished line with its line feed; standard output unless given. */
  readonly write?: (line: string) => void;
}

const CENSOR = "[redacted]";
const SECRET_FIELDS = ["password", "auth", "authorization", "REDIS_AUTH", "secret", "token"];
const SECRET_LENGTH_MIN = 4;

/** Makes the log. Lines are written before the call returns, so that none is lost when the process ends. */
export function createLogger(options: LoggerOptions): Logger {
  const write = options.write ?? standardOutput();
  const secrets = asWritten(options.secrets);
  const finish = options.format === "text" ? formatLogLine : (line: string) => line;
  return pino(
    {
      level: options.level,
      base: options.worker === undefined ? null : { worker: options.worker },
      // The clock of the process, so that tests of the log move time by hand; a Date only writes it down.
      timestamp: () => `,"time":"${isoTime(options.clock.nowUs())}"`,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRET_FIELDS.flatMap((field) => [field, `*.${field}`]), censor: CENSOR },
    },
    { write: (line: string) => write(finish(visibleJson(withoutSecrets(line, secrets)))) },
  );
}

function standardOutput(): (line: string) => void {
  const output = destination({ dest: 1, sync: true });
  return (line) => {
    output.write(line);
  };
}

// In JSON a secret may be written with escapes.
function asWritten(secrets: readonly string[]): string[] {
  const long = secrets.filter((secret) => secret.length >= SECRET_LENGTH_MIN);
  return [
    ...new Set(long.flatMap((secret) => [JSON.stringify(secret).slice(1, -1), secret, encodeURIComponent(secret)])),
  ];
}

function withoutSecrets(line: string, secrets: readonly string[]): string {
  let clean = line;
  for (const secret of secrets) if (clean.includes(secret)) clean = clean.replaceAll(secret, CENSOR);
  return clean;
}
