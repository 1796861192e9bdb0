// The addresses that the supervisor listens on, from the settings.

import type { ListenOptions } from "node:net";
import type { Settings } from "../settings.ts";
import type { ListenerName } from "./messages.ts";

/** The address of a listener; undefined if the settings want none. */
export function targetOf(name: ListenerName, settings: Settings): ListenOptions | undefined {
  const { grpcUnixSocket: path, grpcHost, grpcPort, httpHost, httpPort, debugHost, debugPort } = settings;
  if (name === "grpc") return path === undefined ? { host: grpcHost, port: grpcPort } : { path };
  if (name === "http") return { host: httpHost, port: httpPort };
  if (name === "metrics") return settings.prometheusAddress;
  return debugPort === undefined ? undefined : { host: debugHost, port: debugPort };
}

const VARIABLES = {
  grpc: "GRPC_HOST and GRPC_PORT",
  http: "HOST and PORT",
  debug: "DEBUG_PORT",
  metrics: "PROMETHEUS_ADDR",
} as const;

/** How an error names a listener: the variables that set its address, and the address. */
export function nameOf(name: ListenerName, settings: Settings): { readonly variable: string; readonly where: string } {
  const { host = "", port, path } = targetOf(name, settings) ?? {};
  const shown = path === undefined ? `${host.includes(":") ? `[${host}]` : host}:${port}` : `unix:${path}`;
  return { variable: VARIABLES[name], where: shown };
}
