// The trouble of a gRPC port, for all who listen: the transports, and a supervisor, which loads no gRPC.

import { cannotListen } from "../core/cannot-listen.ts";
import type { ConfigError } from "../core/errors.ts";

/** Why the gRPC port can't be listened on, in one sentence that names the setting. */
export function grpcCannotListen(
  address: string,
  options: { readonly unixSocket?: string | undefined },
  error: Error,
): ConfigError {
  return cannotListen(
    "gRPC",
    address,
    options.unixSocket === undefined ? "GRPC_HOST and GRPC_PORT" : "GRPC_UDS",
    error,
  );
}
