// Where a gRPC port listens, for both transports: its address in words, the error if it can't be opened, and the file
// of a Unix socket, which a killed process leaves behind.

import { lstat, rm } from "node:fs/promises";
import { connect } from "node:net";
import { cannotListen } from "../../base/cannot-listen.ts";
import type { ConfigError } from "../../base/errors.ts";
import type { GrpcServerOptions } from "./transport.ts";

type Address = Pick<GrpcServerOptions, "host" | "port" | "portOption" | "unixSocket">;

/** The address as gRPC writes it. */
export function addressText({ host, port, unixSocket }: Address): string {
  if (unixSocket !== undefined) return `unix:${unixSocket}`;
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** The error for the address, in one sentence that names the settings. */
export function grpcCannotListen(address: Address, error: Error): ConfigError {
  const ofPort = address.portOption ?? "GRPC_HOST and GRPC_PORT";
  const settings = address.unixSocket === undefined ? ofPort : "GRPC_UDS";
  return cannotListen("gRPC", addressText(address), settings, error);
}

/**
 * Removes the socket file if no process listens on it: until then no process can listen on the path. A file or
 * directory there stays, and the listener gets the error that the address is in use.
 */
export async function removeAbandonedSocket({ unixSocket: path }: Address): Promise<void> {
  if (path === undefined) return;
  const isSocket = await lstat(path).then(
    (one) => one.isSocket(),
    () => false,
  );
  // The system refuses connections to other files with the same error.
  if (!isSocket) return;
  const isAbandoned = await new Promise<boolean>((resolve) => {
    const probe = connect(path, () => {
      probe.destroy();
      resolve(false);
    });
    probe.on("error", (error: NodeJS.ErrnoException) => resolve(error.code === "ECONNREFUSED"));
  });
  if (isAbandoned) await rm(path, { force: true });
}
