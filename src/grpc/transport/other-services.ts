// The services beside the methods on bytes, in the form of grpc-js, for both transports: health, and reflection if it is asked for.

import type { MethodDefinition, UntypedHandleCall } from "@grpc/grpc-js";
import { HealthService } from "./health-service.ts";
import { HEALTH_SERVICE, serviceDefinition } from "./load-proto.ts";
import { reflectionServices } from "./reflection.ts";
import type { GrpcServerOptions, GrpcService } from "./transport.ts";

/** A method of a service in the form of grpc-js. */
export interface StreamMethod {
  readonly definition: MethodDefinition<unknown, unknown>;
  readonly handler: UntypedHandleCall;
}

/** The service name that users of envoyproxy/ratelimit probe. */
const HEALTH_NAME = "ratelimit";

/** Makes the services; that of health must be closed at shutdown. `watchersMax`: streams of health's Watch that it allows. */
export function otherServices(
  options: GrpcServerOptions,
  watchersMax: number,
): { readonly services: readonly GrpcService[]; readonly health: HealthService } {
  const serviceNames = [...new Set(options.methods.map((method) => serviceOf(method.path)))];
  const health = new HealthService(options.health, ["", HEALTH_NAME, ...serviceNames], watchersMax);
  const services = [
    { definition: serviceDefinition(HEALTH_SERVICE), implementation: health.implementation() },
    ...(options.services ?? []),
    ...(options.reflection ? reflectionServices([...serviceNames, HEALTH_SERVICE]) : []),
  ];
  return { services, health };
}

/** The methods of services, by path. */
export function methodsOf(services: readonly GrpcService[]): ReadonlyMap<string, StreamMethod> {
  const methods = new Map<string, StreamMethod>();
  for (const { definition, implementation } of services) {
    for (const [name, method] of Object.entries(definition)) {
      const handler = implementation[name] ?? (method.originalName && implementation[method.originalName]);
      if (handler) methods.set(method.path, { definition: method, handler });
    }
  }
  return methods;
}

function serviceOf(path: string): string {
  return path.slice(1, path.lastIndexOf("/"));
}
