// gRPC on a port or a Unix socket, by grpc-js: listens, drains, stops. grpc-services.ts builds the services.

import type { Socket } from "node:net";
import { ServerCredentials } from "@grpc/grpc-js";
import type { SocketSource } from "../core/socket-source.ts";
import { type ConnectionLoads, MovingAverage } from "./connection-loads.ts";
import { grpcCannotListen } from "./grpc-cannot-listen.ts";
import { GRPC_JS_WAITING_STREAMS_MAX, GrpcJsStreams } from "./grpc-js-streams.ts";
import { createGrpcServices, type GrpcServices, type ServicesOptions } from "./grpc-services.ts";
import { clientNameInterceptor, FileCredentials } from "./tls-credentials.ts";
import type { TlsFiles } from "./tls-files.ts";
import { removeAbandonedSocket } from "./unix-socket.ts";

export interface GrpcServerOptions extends ServicesOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** Path of a Unix socket to listen on in place of host and port. */
  readonly unixSocket?: string | undefined;
  /** Certificates for TLS; undefined serves plaintext. */
  readonly tls?: TlsFiles | undefined;
  /** The source of connections if another process listens in place of this one; then host, port and socket are its own. */
  readonly sockets?: SocketSource | undefined;
}

/**
 * Streams that a connection may have open; node:http2 refuses more, and ends a connection after a hundred refusals. A call takes grpc-js
 * 40 us, so as many fill a core even if the store takes 20 ms.
 */
const STREAMS_PER_CONNECTION_MAX = 512;

/** A listening server. */
export interface GrpcServer {
  /** The port; 0 for a Unix socket. */
  readonly port: number;
  /** Calls that wait for their answer. */
  inFlight(): number;
  /** Connections that were ended and streams that were reset because of what peers did, by kind. */
  readonly troubles: Readonly<Record<string, number>>;
  /** The load of its connections. */
  readonly loads: ConnectionLoads;
  /**
   * Accepts no new connections and calls, lets calls under way finish, and cuts off what is left after `graceMs` milliseconds. Resolves
   * when all is closed. A second call gets the same promise.
   */
  drain(graceMs: number): Promise<void>;
}

/** Starts to listen. Rejects with ConfigError if it can't, in one sentence that names address and settings. */
export async function startGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const clientName = options.tls?.names.clientName;
  const services = createGrpcServices({
    ...options,
    maxConcurrentStreams: Math.min(options.maxConcurrentStreams, STREAMS_PER_CONNECTION_MAX),
    ...(clientName === undefined ? {} : { interceptors: [clientNameInterceptor(clientName)] }),
  });
  const port = await (options.sockets === undefined
    ? bind(services, options)
    : enter(options.sockets, services, options));
  const streams = new GrpcJsStreams(GRPC_JS_WAITING_STREAMS_MAX);
  streams.watch(services.server);
  let drained: Promise<void> | undefined;
  return {
    port: options.unixSocket === undefined ? port : 0,
    inFlight: () => services.context.inFlight,
    troubles: streams.troubles,
    loads: loadsOf(services),
    drain(graceMs) {
      options.sockets?.close();
      drained ??= drain(services, graceMs);
      return drained;
    },
  };
}

async function bind(services: GrpcServices, options: GrpcServerOptions): Promise<number> {
  if (options.unixSocket !== undefined) await removeAbandonedSocket(options.unixSocket);
  const host = options.host.includes(":") ? `[${options.host}]` : options.host;
  const address = options.unixSocket === undefined ? `${host}:${options.port}` : `unix:${options.unixSocket}`;
  return new Promise((resolve, reject) => {
    services.server.bindAsync(address, credentialsOf(options), (error, port) => {
      if (error === null) resolve(port);
      else reject(grpcCannotListen(address, options, error));
    });
  });
}

function enter(sockets: SocketSource, services: GrpcServices, options: GrpcServerOptions): Promise<number> {
  const injector = services.server.createConnectionInjector(credentialsOf(options));
  return sockets.open((socket: Socket) => injector.injectConnection(socket));
}

// grpc-js does not show its connections, so their calls are counted together, and no connection is sent away before its age.
function loadsOf({ context }: GrpcServices): ConnectionLoads {
  const average = new MovingAverage();
  return {
    sample: () => average.add(context.inFlight),
    openStreams: () => average.value,
    moveAway: () => undefined,
  };
}

function credentialsOf({ tls }: GrpcServerOptions): ServerCredentials {
  return tls === undefined ? ServerCredentials.createInsecure() : new FileCredentials(tls);
}

function drain(services: GrpcServices, graceMs: number): Promise<void> {
  services.health.close();
  return new Promise((resolve) => {
    const cut = setTimeout(() => {
      services.server.forceShutdown();
      resolve();
    }, graceMs);
    services.server.tryShutdown(() => {
      clearTimeout(cut);
      resolve();
    });
  });
}
