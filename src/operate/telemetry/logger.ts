// The process's log, by pino: one JSON object per line, or lines for people. Secrets are removed from every line.

import { pino } from "pino";
import type { Clock } from "../../base/clock.ts";
import type { LogFields } from "../../base/log.ts";
import { isoTime } from "../../base/units.ts";
import { visibleJson } from "../../base/visible.ts";
import { formatLogLine } from "./log-line.ts";

interface LogMethod {
  (fields: LogFields, message: string): void;
  (message: string): void;
}

export interface Logger extends Readonly<Record<"fatal" | "error" | "warn" | "info" | "debug", LogMethod>> {
  /** The same log with more fields in each line, and its own level. */
  child(fields: LogFields, options: { readonly level: string }): Logger;
}

interface LoggerOptions {
  readonly level: "fatal" | "error" | "warn" | "info" | "debug" | "trace" | "silent";
  readonly format: "json" | "text";
  readonly clock: Clock;
  /** Texts that no line may contain, such as passwords. Those shorter than four characters are ignored. */
  readonly secrets: readonly string[];
  /** Takes each finished line with its line feed. Default: drops it. */
  readonly write?: (line: string) => void;
}

const CENSOR = "[redacted]";
const SECRET_FIELDS = ["password", "auth", "authorization", "REDIS_AUTH", "secret", "token"];
const SECRET_LENGTH_MIN = 4;

/** Makes the log. */
export function createLogger(options: LoggerOptions): Logger {
  const { write = () => undefined } = options;
  const secrets = asWritten(options.secrets);
  const finish = options.format === "text" ? formatLogLine : (line: string) => line;
  return pino(
    {
      level: options.level,
      base: null,
      // The process's clock, so that tests can move time by hand; Date is used for the format alone.
      timestamp: () => `,"time":"${isoTime(options.clock.nowUs())}"`,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRET_FIELDS.flatMap((field) => [field, `*.${field}`]), censor: CENSOR },
    },
    { write: (line: string) => write(finish(visibleJson(withoutSecrets(line, secrets)))) },
  );
}

// JSON may write a secret with escapes, and a URL with percent signs.
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
