// Registers all services of this process on one grpc-js server that does not listen yet. grpc-server.ts binds it to a port; a transport
// with its own listener passes it connections through `createConnectionInjector`.

import {
  Server,
  type ServerInterceptor,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { MessageTypeDefinition, PackageDefinition } from "@grpc/proto-loader";
import { ReflectionService } from "@grpc/reflection";
import type { Clock } from "../core/clock.ts";
import type { HealthState } from "../core/health.ts";
import { refuseBodies } from "./grpc-js-requests.ts";
import { HealthService } from "./health-service.ts";
import { HEALTH_SERVICE, loadFileDescriptors, loadProto } from "./load-proto.ts";
import {
  CallContext,
  passThroughDefinition,
  type TransportObserver,
  type UnaryMethod,
  unaryImplementation,
} from "./unary-call.ts";

/** A service in the form of grpc-js. */
interface GrpcService {
  readonly definition: ServiceDefinition;
  readonly implementation: UntypedServiceImplementation;
}

export interface ServicesOptions {
  readonly methods: readonly UnaryMethod[];
  readonly clock: Clock;
  readonly health: HealthState;
  readonly reflection: boolean;
  /** Age at which a connection is asked to go, varied by up to a tenth, so that load moves. In milliseconds; Infinity: never. */
  readonly maxConnectionAgeMs: number;
  /** How long the calls of such a connection may take to finish, in milliseconds. */
  readonly maxConnectionAgeGraceMs: number;
  /** Interval of pings on quiet connections, in milliseconds. Infinity: never. */
  readonly keepaliveMs: number;
  readonly maxConcurrentStreams: number;
  /** Longer requests get RESOURCE_EXHAUSTED. In bytes. */
  readonly maxMessageBytes: number;
  /** Calls that may wait for their answer, over all connections; further ones get RESOURCE_EXHAUSTED. */
  readonly inFlightMax: number;
  readonly observer: TransportObserver;
  /** Services besides `methods`: anything that grpc-js can serve, such as streams. */
  readonly services?: readonly GrpcService[];
  /** They see every call before its message is read. */
  readonly interceptors?: readonly ServerInterceptor[];
}

/** A grpc-js server with everything registered, and its health service, whose streams must be ended at shutdown. */
export interface GrpcServices {
  readonly server: Server;
  readonly health: HealthService;
  readonly context: CallContext;
  /** Every path that does not get UNIMPLEMENTED. */
  readonly paths: ReadonlySet<string>;
}

const KEEPALIVE_TIMEOUT_MS = 20_000;
/** 20 days: grpc-js waits for up to a tenth more, and a timer of Node.js that is longer than 24 days fires at once. */
const AGE_MS_MAX = 1_728_000_000;
const REFLECTION_PATHS = ["v1", "v1alpha"].map(
  (version) => `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
);
/** The service name that users of envoyproxy/ratelimit probe. */
const HEALTH_NAME = "ratelimit";

/** Registers the methods, health, and reflection if the options ask for it. */
export function createGrpcServices(options: ServicesOptions): GrpcServices {
  const server = new Server({
    "grpc.max_concurrent_streams": options.maxConcurrentStreams,
    "grpc.max_receive_message_length": options.maxMessageBytes,
    ...(Number.isFinite(options.maxConnectionAgeMs) && {
      "grpc.max_connection_age_ms": Math.min(options.maxConnectionAgeMs, AGE_MS_MAX),
      "grpc.max_connection_age_grace_ms": options.maxConnectionAgeGraceMs,
    }),
    ...(Number.isFinite(options.keepaliveMs) && {
      "grpc.keepalive_time_ms": options.keepaliveMs,
      "grpc.keepalive_timeout_ms": KEEPALIVE_TIMEOUT_MS,
    }),
    interceptors: [refuseBodies, ...(options.interceptors ?? [])],
  });
  const context = new CallContext(options);
  for (const method of options.methods) {
    const name = nameOf(method.path);
    server.addService({ [name]: passThroughDefinition(method.path) }, { [name]: unaryImplementation(method, context) });
  }
  const others = options.services ?? [];
  for (const { definition, implementation } of others) server.addService(definition, implementation);
  const proto = loadProto();
  const serviceNames = [...new Set(options.methods.map((method) => serviceOf(method.path)))];
  const health = new HealthService(options.health, ["", HEALTH_NAME, ...serviceNames]);
  server.addService(proto[HEALTH_SERVICE] as ServiceDefinition, health.implementation());
  if (options.reflection) {
    new ReflectionService(wholeFiles(), { services: [...serviceNames, HEALTH_SERVICE] }).addToServer(server);
  }
  const definitions = [proto[HEALTH_SERVICE] as ServiceDefinition, ...others.map(({ definition }) => definition)];
  const methods = [...options.methods, ...definitions.flatMap((definition) => Object.values(definition))];
  const paths = new Set(methods.map((method) => method.path));
  if (options.reflection) for (const path of REFLECTION_PATHS) paths.add(path);
  return { server, health, context, paths };
}

// Reflection reads only the file descriptors of a package definition.
function wholeFiles(): PackageDefinition {
  return { files: { fileDescriptorProtos: loadFileDescriptors() } as MessageTypeDefinition<object, object> };
}

function serviceOf(path: string): string {
  return path.slice(1, path.lastIndexOf("/"));
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
