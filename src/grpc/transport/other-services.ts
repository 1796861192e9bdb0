// The methods that don't work on bytes, for both transports: health, and reflection if it is on.

import { HealthService } from "./health-service.ts";
import { HEALTH_SERVICE } from "./load-proto.ts";
import { reflectionMethods } from "./reflection.ts";
import type { GrpcServerOptions, MessageMethod } from "./transport.ts";

/** The service name that users of envoyproxy/ratelimit probe. */
const HEALTH_NAME = "ratelimit";

/**
 * Makes the methods; the service of health must be closed at shutdown. `watchersMax`: streams of health's Watch that it
 * allows.
 */
export function otherServices(
  options: GrpcServerOptions,
  watchersMax: number,
): { readonly methods: readonly MessageMethod[]; readonly health: HealthService } {
  const serviceNames = [
    ...new Set([...options.methods, ...(options.streams ?? [])].map(({ path }) => serviceOf(path))),
  ];
  const health = new HealthService(options.health, ["", HEALTH_NAME, ...serviceNames], watchersMax);
  const reflection = options.reflection ? reflectionMethods([...serviceNames, HEALTH_SERVICE]) : [];
  return { methods: [...health.methods(), ...reflection], health };
}

function serviceOf(path: string): string {
  return path.slice(1, path.lastIndexOf("/"));
}
