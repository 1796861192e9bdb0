// The addresses that the supervisor listens on, by door, as the settings have them.

import type { ListenOptions } from "node:net";
import type { Settings } from "../settings.ts";
import type { DoorName } from "./messages.ts";

/** Where a door is to listen; undefined if the settings want none. */
export function targetOf(door: DoorName, settings: Settings): ListenOptions | undefined {
  const { grpcUnixSocket: path, grpcHost, grpcPort, httpHost, httpPort, debugHost, debugPort } = settings;
  if (door === "grpc") return path === undefined ? { host: grpcHost, port: grpcPort } : { path };
  if (door === "http") return { host: httpHost, port: httpPort };
  if (door === "metrics") return settings.prometheusAddress;
  return debugPort === undefined ? undefined : { host: debugHost, port: debugPort };
}

const VARIABLES = {
  grpc: "GRPC_HOST and GRPC_PORT",
  http: "HOST and PORT",
  debug: "DEBUG_PORT",
  metrics: "PROMETHEUS_ADDR",
} as const;

/** How a door is called where its address makes trouble. */
export function nameOf(door: DoorName, settings: Settings): { readonly variable: string; readonly where: string } {
  const { host = "", port, path } = targetOf(door, settings) ?? {};
  const shown = path === undefined ? `${host.includes(":") ? `[${host}]` : host}:${port}` : `unix:${path}`;
  return { variable: VARIABLES[door], where: shown };
}
