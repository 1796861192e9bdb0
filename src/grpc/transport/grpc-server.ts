// gRPC on a port or a Unix socket, by grpc-js: listens, drains, stops.

import { Server, ServerCredentials } from "@grpc/grpc-js";
import { waitAtMost } from "../../base/wait-at-most.ts";
import { messageService, onBytes, streamImplementation, unaryImplementation } from "./grpc-js-calls.ts";
import { refuseBodies } from "./grpc-js-requests.ts";
import { GRPC_JS_WAITING_STREAMS_MAX, GrpcJsStreams } from "./grpc-js-streams.ts";
import type { HealthService } from "./health-service.ts";
import { addressText, grpcCannotListen, removeAbandonedSocket } from "./listen-address.ts";
import { otherServices } from "./other-services.ts";
import { methodDefinition } from "./service-definitions.ts";
import type { TlsFiles } from "./tls-files.ts";
import type { GrpcServer, GrpcServerOptions } from "./transport.ts";

/**
 * Streams that a connection may have open; node:http2 refuses more, and ends a connection after a hundred refusals. A
 * call takes grpc-js 40 us, so as many fill a core even if the store takes 20 ms.
 */
const STREAMS_PER_CONNECTION_MAX = 512;

/** Starts to listen. Rejects with ConfigError if it can't, in one sentence that names address and settings. */
export async function startGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const server = newServer(options);
  const context = { options, inFlight: 0 };
  for (const method of options.methods) {
    server.addService({ it: onBytes(methodDefinition(method.path)) }, { it: unaryImplementation(method, context) });
  }
  const { methods, health } = otherServices(options, HEALTH_WATCHERS_MAX);
  for (const method of methods) server.addService(...messageService(method));
  for (const method of options.streams ?? []) {
    server.addService({ it: onBytes(methodDefinition(method.path)) }, { it: streamImplementation(method, context) });
  }
  const paths = new Set([
    ...[...options.methods, ...(options.streams ?? [])].map(({ path }) => path),
    ...methods.map(({ definition }) => definition.path),
  ]);
  const served = { paths, observer: options.observer };
  const streams = new GrpcJsStreams(GRPC_JS_WAITING_STREAMS_MAX, options.tls?.names.clientName, served);
  const port = await bind(server, options, () => streams.watch(server));
  let drained: Promise<void> | undefined;
  return {
    port: options.unixSocket === undefined ? port : 0,
    inFlight: () => context.inFlight,
    troubles: streams.troubles,
    drain(graceMs) {
      if (drained === undefined) options.onDrain?.();
      drained ??= drain(server, health, graceMs);
      return drained;
    },
  };
}

const KEEPALIVE_TIMEOUT_MS = 20_000;
/** 20 days: grpc-js waits for up to a tenth more, and a timer of Node.js that is longer than 24 days fires at once. */
const AGE_MS_MAX = 1_728_000_000;
/** Streams of health's Watch: they wait for nothing, so they are not among those that grpc-js-streams.ts bounds. */
const HEALTH_WATCHERS_MAX = 1_000;

function newServer(options: GrpcServerOptions): Server {
  return new Server({
    "grpc.max_concurrent_streams": Math.min(options.maxConcurrentStreams, STREAMS_PER_CONNECTION_MAX),
    "grpc.max_receive_message_length": options.maxMessageBytes,
    ...(Number.isFinite(options.maxConnectionAgeMs) && {
      "grpc.max_connection_age_ms": Math.min(options.maxConnectionAgeMs, AGE_MS_MAX),
      "grpc.max_connection_age_grace_ms": options.maxConnectionAgeGraceMs,
    }),
    ...(Number.isFinite(options.keepaliveMs) && {
      "grpc.keepalive_time_ms": options.keepaliveMs,
      "grpc.keepalive_timeout_ms": KEEPALIVE_TIMEOUT_MS,
    }),
    interceptors: [refuseBodies],
  });
}

// `watch` is called before the first connection can come.
async function bind(server: Server, options: GrpcServerOptions, watch: () => void): Promise<number> {
  await removeAbandonedSocket(options);
  return new Promise((resolve, reject) => {
    server.bindAsync(addressText(options), credentialsOf(options), (error, port) => {
      if (error === null) {
        watch();
        resolve(port);
      } else reject(grpcCannotListen(options, error));
    });
  });
}

function credentialsOf({ tls }: GrpcServerOptions): ServerCredentials {
  return tls === undefined ? ServerCredentials.createInsecure() : new FileCredentials(tls);
}

/** Credentials that follow `files`. Clients must show a certificate if there are authorities for them. */
class FileCredentials extends ServerCredentials {
  constructor(files: TlsFiles) {
    const { requestCert = false, rejectUnauthorized = false } = files.options;
    super({ requestCert, rejectUnauthorized }, files.options);
    files.subscribe((options) => this.updateSecureContextOptions(options));
  }

  _equals(other: ServerCredentials): boolean {
    return other === this;
  }
}

async function drain(server: Server, health: HealthService, graceMs: number): Promise<void> {
  health.close();
  const ended = new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
  if (!(await waitAtMost(graceMs, ended))) server.forceShutdown();
}
