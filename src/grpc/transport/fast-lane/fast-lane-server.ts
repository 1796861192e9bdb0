// gRPC by the fast lane: listens, drains and stops in place of grpc-server.ts, with the same interface.

import type { Server } from "node:net";
import { grpcCannotListen } from "../grpc-cannot-listen.ts";
import type { GrpcServer, GrpcServerOptions } from "../grpc-server.ts";
import type { HealthService } from "../health-service.ts";
import { methodsOf, otherServices } from "../other-services.ts";
import { CallContext } from "../unary-call.ts";
import { removeAbandonedSocket } from "../unix-socket.ts";
import { type Bounds, DEFAULT_BOUNDS, LaneCounts } from "./bounds.ts";
import { Lane } from "./lane.ts";
import { LaneLoads } from "./lane-loads.ts";
import { Listener } from "./listener.ts";
import { tlsSourceOf } from "./tls-source.ts";

/** Connections that may wait to be accepted; the system may allow fewer (net.core.somaxconn). */
const BACKLOG = 1_024;

export interface FastLaneOptions extends GrpcServerOptions {
  /** The HTTP port of this process, to name it to people who ask here by mistake. */
  readonly httpPort?: number | undefined;
  /** Bounds that differ from the defaults; for tests. */
  readonly bounds?: Partial<Bounds> | undefined;
}

/** A listening server and its counters. */
export interface FastLaneServer extends GrpcServer {
  readonly counts: LaneCounts;
}

/** Starts to listen. Rejects with ConfigError if it can't, in one sentence that names address and settings. */
export async function startFastLane(options: FastLaneOptions): Promise<FastLaneServer> {
  // Watches are bounded as all streams that wait (Bounds.waitingStreamsMax).
  const { services, health } = otherServices(options, Number.POSITIVE_INFINITY);
  const context = new CallContext(options);
  const counts = new LaneCounts();
  const { httpPort } = options;
  const lane = new Lane({
    options: {
      ...options,
      httpHint: httpPort === undefined ? "HTTP is served elsewhere." : `HTTP is on port ${httpPort}.`,
    },
    bounds: { ...DEFAULT_BOUNDS, ...options.bounds },
    counts,
    clock: options.clock,
    context,
    known: {
      methods: new Map(options.methods.map((method) => [method.path, method])),
      streams: methodsOf(services),
    },
  });
  const listener = new Listener(lane, options.tls === undefined ? undefined : tlsSourceOf(options.tls));
  const port = await listen(listener.server, options).catch((error: unknown) => {
    listener.destroy();
    throw error;
  });
  let drained: Promise<void> | undefined;
  return {
    port,
    counts,
    troubles: counts.troubles,
    inFlight: () => context.inFlight,
    loads: new LaneLoads(lane),
    drain(graceMs) {
      drained ??= drain({ health, lane, listener }, graceMs, options);
      return drained;
    },
  };
}

async function listen(server: Server, options: FastLaneOptions): Promise<number> {
  const { host, port, unixSocket, sockets } = options;
  if (sockets !== undefined) return sockets.open((socket) => server.emit("connection", socket));
  if (unixSocket !== undefined) await removeAbandonedSocket(unixSocket);
  const target = unixSocket === undefined ? { host, port } : { path: unixSocket };
  const shown = unixSocket === undefined ? `${host.includes(":") ? `[${host}]` : host}:${port}` : `unix:${unixSocket}`;
  return new Promise((resolve, reject) => {
    server.once("error", (error) => reject(grpcCannotListen(shown, options, error)));
    server.listen({ ...target, backlog: BACKLOG }, () => {
      const address = server.address();
      resolve(address !== null && typeof address === "object" ? address.port : 0);
    });
  });
}

interface Running {
  readonly health: HealthService;
  readonly lane: Lane;
  readonly listener: Listener;
}

async function drain(running: Running, graceMs: number, { sockets }: FastLaneOptions): Promise<void> {
  const { health, lane, listener } = running;
  sockets?.close();
  // Removes a Unix socket, too, at once: the path may be another process's before this one has ended.
  listener.close();
  health.close();
  for (const connection of lane.connections) connection.drain(graceMs);
  const cut = setTimeout(() => listener.destroy(), graceMs);
  await listener.emptied();
  clearTimeout(cut);
  listener.destroy();
  lane.deadlines.close();
}
