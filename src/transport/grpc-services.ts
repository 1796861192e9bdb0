// Puts all services of this process on one grpc-js server that listens nowhere yet. grpc-server.ts binds it to a port;
// a transport with a listener of its own hands it connections through `createConnectionInjector`.

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
import { HealthService } from "./health-service.ts";
import { HEALTH_SERVICE, loadFileDescriptors, loadProto } from "./load-proto.ts";
import { refuseCompressed } from "./no-compression.ts";
import {
  CallContext,
  passThroughDefinition,
  type TransportObserver,
  type UnaryMethod,
  unaryImplementation,
} from "./unary-call.ts";

/** A service as grpc-js takes it. */
interface GrpcService {
  readonly definition: ServiceDefinition;
  readonly implementation: UntypedServiceImplementation;
}

export interface ServicesOptions {
  readonly methods: readonly UnaryMethod[];
  readonly clock: Clock;
  readonly health: HealthState;
  readonly reflection: boolean;
  /** After this long a connection is asked to go, give or take a tenth, so that load moves. Infinity: never. */
  readonly maxConnectionAgeMs: number;
  /** How long the calls of such a connection may go on. */
  readonly maxConnectionAgeGraceMs: number;
  /** Quiet connections are pinged this often. Infinity: never. */
  readonly keepaliveMs: number;
  readonly maxConcurrentStreams: number;
  /** Longer requests get RESOURCE_EXHAUSTED. */
  readonly maxMessageBytes: number;
  /** Calls that may wait for their answer at once, all connections together; more get RESOURCE_EXHAUSTED. */
  readonly inFlightMax: number;
  readonly observer: TransportObserver;
  /** Services beside those of this process's own: whatever grpc-js can serve, streams above all. */
  readonly services?: readonly GrpcService[];
  /** See every call before it is read. */
  readonly interceptors?: readonly ServerInterceptor[];
}

/** A grpc-js server with everything registered, and the service that must let go of its streams at shutdown. */
export interface GrpcServices {
  readonly server: Server;
  readonly health: HealthService;
  readonly context: CallContext;
  /** Every path that has an answer other than UNIMPLEMENTED. */
  readonly paths: ReadonlySet<string>;
}

const KEEPALIVE_TIMEOUT_MS = 20_000;
const REFLECTION_PATHS = ["v1", "v1alpha"].map(
  (version) => `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
);
/** The name that users of the reference service probe. */
const HEALTH_NAME = "ratelimit";

/** Registers the methods, health and, if asked for, reflection. */
export function createGrpcServices(options: ServicesOptions): GrpcServices {
  const server = new Server({
    "grpc.max_concurrent_streams": options.maxConcurrentStreams,
    "grpc.max_receive_message_length": options.maxMessageBytes,
    ...(Number.isFinite(options.maxConnectionAgeMs) && {
      "grpc.max_connection_age_ms": options.maxConnectionAgeMs,
      "grpc.max_connection_age_grace_ms": options.maxConnectionAgeGraceMs,
    }),
    ...(Number.isFinite(options.keepaliveMs) && {
      "grpc.keepalive_time_ms": options.keepaliveMs,
      "grpc.keepalive_timeout_ms": KEEPALIVE_TIMEOUT_MS,
    }),
    interceptors: [refuseCompressed, ...(options.interceptors ?? [])],
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

// Reflection reads nothing but the file descriptors of a package definition.
function wholeFiles(): PackageDefinition {
  return { files: { fileDescriptorProtos: loadFileDescriptors() } as MessageTypeDefinition<object, object> };
}

function serviceOf(path: string): string {
  return path.slice(1, path.lastIndexOf("/"));
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
