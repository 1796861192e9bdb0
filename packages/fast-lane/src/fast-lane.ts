// The exports of "@headgate/fast-lane": a gRPC server that listens, drains and stops.

import type { Server } from "node:net";
import type { ServerCounts } from "./bounds.ts";
import { Http2Server } from "./http2-server.ts";
import { Listener } from "./listener.ts";
import { DEFAULTS, type ServerOptions } from "./server-options.ts";

export { type Bounds, DEFAULT_BOUNDS, type ServerCounts } from "./bounds.ts";
export {
  type CallStatus,
  GrpcStatus,
  type Observer,
  type StreamCall,
  type StreamMethod,
  type UnaryHandler,
  type UnaryMethod,
  type UnaryReply,
} from "./methods.ts";
export type { Certificates, ServerOptions } from "./server-options.ts";
export type { Clock } from "./time.ts";

/** Connections that may wait to be accepted; the system may allow fewer (net.core.somaxconn). */
const BACKLOG = 1_024;

/** A server that listens. */
export interface RunningServer {
  /** The port; 0 for a Unix socket. */
  readonly port: number;
  readonly counts: ServerCounts;
  /** Unary calls that wait for their answer. */
  inFlight(): number;
  /**
   * Accepts no new connections and calls, lets calls under way finish, and cuts off what is left after `graceMs`
   * milliseconds. Resolves when all is closed. A second call gets the same promise.
   */
  drain(graceMs: number): Promise<void>;
}

/** Starts to listen. Rejects with the error of node:net if it can't. */
export async function serve(options: ServerOptions): Promise<RunningServer> {
  const http2 = new Http2Server({ ...DEFAULTS, ...options });
  const listener = new Listener(http2, options.tls);
  const port = await listen(listener.server, options).catch((error: unknown) => {
    listener.destroy();
    throw error;
  });
  let drained: Promise<void> | undefined;
  return {
    port,
    counts: http2.counts,
    inFlight: () => http2.inFlight,
    drain(graceMs) {
      drained ??= drain(listener, graceMs);
      return drained;
    },
  };
}

function listen(server: Server, { host = "127.0.0.1", port = 0, unixSocket }: ServerOptions): Promise<number> {
  const target = unixSocket === undefined ? { host, port } : { path: unixSocket };
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ ...target, backlog: BACKLOG }, () => {
      const address = server.address();
      resolve(address !== null && typeof address === "object" ? address.port : 0);
    });
  });
}

async function drain(listener: Listener, graceMs: number): Promise<void> {
  // Removes a Unix socket, too, at once: the path may be another process's before this one has ended.
  listener.close();
  for (const { connection } of listener.accepted) connection?.drain(graceMs);
  const late = setTimeout(() => listener.destroy(), graceMs);
  await listener.emptied();
  clearTimeout(late);
  listener.destroy();
}
