// A gRPC server on the fast lane: listens, drains and stops. grpc-server.ts has the same interface.

import type { Server } from "node:net";
import { waitAtMost } from "../../../base/wait-at-most.ts";
import type { HealthService } from "../health-service.ts";
import { grpcCannotListen, removeAbandonedSocket } from "../listen-address.ts";
import { otherServices } from "../other-services.ts";
import type { GrpcServer, GrpcServerOptions } from "../transport.ts";
import type { ServerCounts } from "./bounds.ts";
import { Http2Server, type Http2ServerOptions } from "./http2-server.ts";
import { Listener } from "./listener.ts";

/** Connections that may wait to be accepted; the system may allow fewer (net.core.somaxconn). */
const BACKLOG = 1_024;

export interface FastLaneOptions extends GrpcServerOptions, Http2ServerOptions {}

/** A listening server and its counters. */
export interface FastLaneServer extends GrpcServer {
  readonly counts: ServerCounts;
}

/** Starts to listen. Rejects with ConfigError if it can't, in one sentence that names address and settings. */
export async function startFastLane(options: FastLaneOptions): Promise<FastLaneServer> {
  // Watches are bounded as all streams that wait (Bounds.waitingStreamsMax).
  const { methods, health } = otherServices(options, Number.POSITIVE_INFINITY);
  const http2 = new Http2Server(options, methods);
  const listener = new Listener(http2, options.tls);
  const port = await listen(listener.server, options).catch((error: unknown) => {
    listener.destroy();
    throw error;
  });
  let drained: Promise<void> | undefined;
  return {
    port,
    counts: http2.counts,
    troubles: http2.counts.troubles,
    inFlight: () => http2.inFlight,
    drain(graceMs) {
      drained ??= drain(health, listener, graceMs);
      return drained;
    },
  };
}

async function listen(server: Server, options: FastLaneOptions): Promise<number> {
  const { host, port, unixSocket } = options;
  await removeAbandonedSocket(options);
  const target = unixSocket === undefined ? { host, port } : { path: unixSocket };
  return new Promise((resolve, reject) => {
    server.once("error", (error) => reject(grpcCannotListen(options, error)));
    server.listen({ ...target, backlog: BACKLOG }, () => {
      const address = server.address();
      resolve(address !== null && typeof address === "object" ? address.port : 0);
    });
  });
}

async function drain(health: HealthService, listener: Listener, graceMs: number): Promise<void> {
  // Removes a Unix socket, too, at once: the path may be another process's before this one has ended.
  listener.close();
  health.close();
  for (const { connection } of listener.accepted) connection?.drain(graceMs);
  const emptied = listener.emptied();
  await waitAtMost(graceMs, emptied);
  listener.destroy();
  await emptied;
}
