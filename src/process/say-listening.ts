// The log line of a process that starts to answer calls.

import type { Logger } from "../operate/telemetry/logger.ts";
import type { Settings } from "./settings.ts";
import type { ListenerName } from "./workers/messages.ts";

/** Logs that the process listens; once for all workers. */
export function sayListening(
  { grpcUnixSocket, grpcHost, httpHost, backendType: store }: Settings,
  { grpc, http, debug, metrics }: Partial<Record<ListenerName, number>>,
  logger: Logger,
  workers?: number,
): void {
  const address = grpcUnixSocket ?? `${grpcHost}:${grpc}`;
  logger.info({ grpc: address, http: `${httpHost}:${http}`, store, debug, metrics, workers }, "listening");
}
