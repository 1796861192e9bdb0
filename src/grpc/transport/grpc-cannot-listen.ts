// The error of a gRPC port that can't be opened, for both transports.

import { cannotListen } from "../../engine/base/cannot-listen.ts";
import type { ConfigError } from "../../engine/base/errors.ts";

/** The error for the address, in one sentence that names the settings. */
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
