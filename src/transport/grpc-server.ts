// gRPC on a port or a Unix socket, by grpc-js: binds, drains, stops. What is served is built in grpc-services.ts.

import { rm } from "node:fs/promises";
import { connect } from "node:net";
import { ServerCredentials } from "@grpc/grpc-js";
import { ConfigError } from "../core/errors.ts";
import { createGrpcServices, type GrpcServices, type ServicesOptions } from "./grpc-services.ts";
import { clientNameInterceptor, FileCredentials } from "./tls-credentials.ts";
import type { TlsFiles } from "./tls-files.ts";

export interface GrpcServerOptions extends ServicesOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Path of a Unix socket to listen on in place of host and port. */
  readonly unixSocket?: string | undefined;
  /** Certificates to serve TLS with; undefined serves plaintext. */
  readonly tls?: TlsFiles | undefined;
}

/** A listening server. */
export interface GrpcServer {
  /** The port listened on; a server on a Unix socket has none, shown as 0. */
  readonly port: number;
  /** Calls that wait for their answer. */
  inFlight(): number;
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
  if (options.unixSocket !== undefined) await removeAbandonedSocket(options.unixSocket);
  const port = await bind(services, options);
  let drained: Promise<void> | undefined;
  return {
    port: options.unixSocket === undefined ? port : 0,
    inFlight: () => services.context.inFlight,
    drain(graceMs) {
      drained ??= drain(services, graceMs);
      return drained;
    },
  };
}

/** Removes the socket file that a killed process left behind: nobody can listen on it until it is gone. */
export async function removeAbandonedSocket(path: string): Promise<void> {
  const isAbandoned = await new Promise<boolean>((resolve) => {
    const probe = connect(path, () => {
      probe.destroy();
      resolve(false);
    });
    probe.on("error", (error: NodeJS.ErrnoException) => resolve(error.code === "ECONNREFUSED"));
  });
  if (isAbandoned) await rm(path, { force: true });
}

function bind(services: GrpcServices, options: GrpcServerOptions): Promise<number> {
  const host = options.host.includes(":") ? `[${options.host}]` : options.host;
  const address = options.unixSocket === undefined ? `${host}:${options.port}` : `unix:${options.unixSocket}`;
  return new Promise((resolve, reject) => {
    services.server.bindAsync(address, credentialsOf(options), (error, port) => {
      if (error === null) resolve(port);
      else reject(cannotListen(address, options, error));
    });
  });
}

function credentialsOf({ tls }: GrpcServerOptions): ServerCredentials {
  return tls === undefined ? ServerCredentials.createInsecure() : new FileCredentials(tls);
}

const REASONS: readonly (readonly [code: string, reason: string])[] = [
  ["EADDRINUSE", "something else listens there"],
  ["EACCES", "this user is not allowed to"],
  ["EADDRNOTAVAIL", "this machine has no such address"],
  ["ENOTFOUND", "the host name is unknown"],
  ["Name resolution failed", "the host name is unknown"],
];

/** Why `address` can't be listened on, in one sentence that names the setting. */
export function cannotListen(
  address: string,
  options: { readonly unixSocket?: string | undefined },
  error: Error,
): ConfigError {
  const reason = REASONS.find(([code]) => error.message.includes(code))?.[1] ?? error.message;
  const setting = options.unixSocket === undefined ? "GRPC_HOST and GRPC_PORT" : "GRPC_UDS";
  return new ConfigError("CONFIG_SETTINGS", `gRPC can't listen on ${address} (${setting}): ${reason}`);
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
