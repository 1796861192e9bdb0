// The services beside the methods on bytes, in the form of grpc-js, for both transports: health, and reflection if it is asked for.

import type {
  MethodDefinition,
  ServiceDefinition,
  UntypedHandleCall,
  UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { MessageTypeDefinition, PackageDefinition } from "@grpc/proto-loader";
import { ReflectionService } from "@grpc/reflection";
import { HealthService } from "./health-service.ts";
import { HEALTH_SERVICE, loadFileDescriptors, loadProto } from "./load-proto.ts";
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
    { definition: loadProto()[HEALTH_SERVICE] as ServiceDefinition, implementation: health.implementation() },
    ...(options.services ?? []),
  ];
  if (options.reflection) {
    const reflection = new ReflectionService(wholeFiles(), { services: [...serviceNames, HEALTH_SERVICE] });
    // All that it asks of a server.
    const server = {
      addService: (definition: ServiceDefinition, implementation: UntypedServiceImplementation) =>
        services.push({ definition, implementation }),
    };
    reflection.addToServer(server);
  }
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

// Reflection reads only the file descriptors of a package definition.
function wholeFiles(): PackageDefinition {
  return { files: { fileDescriptorProtos: loadFileDescriptors() } as MessageTypeDefinition<object, object> };
}

function serviceOf(path: string): string {
  return path.slice(1, path.lastIndexOf("/"));
}
