// The addresses that pages listen on, and what happens if one can't be opened.

import { cannotListen, listenTrouble } from "../../base/cannot-listen.ts";
import type { Logger } from "../../operate/telemetry/logger.ts";
import type { Settings } from "../../settings/settings.ts";

/** The ports of pages, by the variables that set their addresses. */
const VARIABLES = { http: "HOST and PORT", debug: "DEBUG_PORT", metrics: "PROMETHEUS_ADDR" } as const;
export type PageName = keyof typeof VARIABLES;

interface Address {
  readonly host: string;
  readonly port: number;
}

/** Undefined if the settings want no such port. */
export function addressOf(name: PageName, settings: Settings): Address | undefined {
  const { httpHost, httpPort, debugHost, debugPort } = settings;
  if (name === "http") return { host: httpHost, port: httpPort };
  if (name === "metrics") return settings.prometheusAddress;
  return debugPort === undefined ? undefined : { host: debugHost, port: debugPort };
}

/**
 * Throws ConfigError for the HTTP port. Calls don't need the pages of the others: that is logged, and the process goes
 * on without it.
 */
export function goOnWithout(name: PageName, { host, port }: Address, error: unknown, logger: Logger): void {
  if (!(error instanceof Error)) throw error;
  const where = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  if (name === "http") throw cannotListen("HTTP", where, VARIABLES.http, error);
  logger.error(
    { variable: VARIABLES[name], where, reason: listenTrouble(error) },
    "can't open an optional port; continuing without it",
  );
}
