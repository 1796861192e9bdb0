// The log line of a process that starts to answer calls.

import type { Logger } from "../operate/telemetry/logger.ts";
import type { Settings } from "../settings/settings.ts";
import type { PageName } from "./app/page-addresses.ts";

/** Logs that the process listens, on these ports. */
export function sayListening(
  { grpcUnixSocket, grpcHost, httpHost, logFormat, backendType: store }: Settings,
  { grpc, http, debug, metrics }: { readonly grpc: number } & Partial<Record<PageName, number>>,
  logger: Logger,
): void {
  const address = grpcUnixSocket ?? `${grpcHost}:${grpc}`;
  // For people at a terminal, who may click on it.
  const host = httpHost === "0.0.0.0" || httpHost === "::" ? "localhost" : httpHost;
  const page = logFormat === "text" ? { page: `http://${host}:${http}` } : {};
  logger.info({ grpc: address, http: `${httpHost}:${http}`, store, debug, metrics, ...page }, "listening");
}
