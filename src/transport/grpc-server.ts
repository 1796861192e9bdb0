// gRPC on a port or a Unix socket, by grpc-js: binds, drains, stops. What is served is built in grpc-services.ts.

import type { Socket } from "node:net";
import { ServerCredentials } from "@grpc/grpc-js";
import type { SocketSource } from "../core/socket-source.ts";
import { type ConnectionLoads, MovingAverage } from "./connection-loads.ts";
import { grpcCannotListen } from "./grpc-cannot-listen.ts";
import { createGrpcServices, type GrpcServices, type ServicesOptions } from "./grpc-services.ts";
import { clientNameInterceptor, FileCredentials } from "./tls-credentials.ts";
import type { TlsFiles } from "./tls-files.ts";
import { removeAbandonedSocket } from "./unix-socket.ts";

export interface GrpcServerOptions extends ServicesOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Path of a Unix socket to listen on in place of host and port. */
  readonly unixSocket?: string | undefined;
  /** Certificates to serve TLS with; undefined serves plaintext. */
  readonly tls?: TlsFiles | undefined;
  /** Where connections come from if another process listens in place of this one; host, port and socket are then its. */
  readonly sockets?: SocketSource | undefined;
}

/** A listening server. */
export interface GrpcServer {
  /** The port listened on; a server on a Unix socket has none, shown as 0. */
  readonly port: number;
  /** Calls that wait for their answer. */
  inFlight(): number;
  /** How busy its connections are. */
  readonly loads: ConnectionLoads;
  /**
   * Takes no new connections and calls, lets the running ones finish, and after `graceMs` cuts what is left.
   * Resolves when all is closed; called again, it waits for the same end.
   */
  drain(graceMs: number): Promise<void>;
}

/** Starts to listen. Throws ConfigError with one sentence that names address and setting if it can't. */
export async function startGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const clientName = options.tls?.names.clientName;
  const services = createGrpcServices({
    ...options,
    ...(clientName === undefined ? {} : { interceptors: [clientNameInterceptor(clientName)] }),
  });
  const port = await (options.sockets === undefined
    ? bind(services, options)
    : enter(options.sockets, services, options));
  let drained: Promise<void> | undefined;
  return {
    port: options.unixSocket === undefined ? port : 0,
    inFlight: () => services.context.inFlight,
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

// grpc-js shows nothing of its connections: they are counted together and none is sent away before its age.
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
