// What code that logs needs of a logger. The process's own is operate/telemetry/logger.ts.

/** Fields of a line. Their names are in snake_case, as in all JSON. */
export type LogFields = { readonly [Name in Lowercase<string>]: unknown };

type LogMethod = (fields: LogFields, message: string) => void;

export type Log = Readonly<Record<"info" | "warn" | "error", LogMethod>>;
