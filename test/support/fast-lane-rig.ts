// A fast lane on a free port, with methods of the test's choice.

import { SystemClock } from "../../src/engine/base/clock.ts";
import { HealthState } from "../../src/engine/base/health.ts";
import {
  type FastLaneOptions,
  type FastLaneServer,
  startFastLane,
} from "../../src/grpc/transport/fast-lane/fast-lane-server.ts";
import { SHOULD_RATE_LIMIT_PATH } from "../../src/grpc/transport/load-proto.ts";
import type { UnaryHandler } from "../../src/grpc/unary.ts";
import { type Http2Peer, peerOf } from "./http2-peer.ts";

export const ECHO: UnaryHandler = { handle: (message, _deadlineUs, reply) => reply.ok(message) };

/** A server under test, what it reported, and peers that end with it. */
export interface FastLaneRig {
  readonly server: FastLaneServer;
  readonly health: HealthState;
  readonly failures: unknown[];
  readonly target: string;
  /** A peer that has greeted. */
  peer(...settings: readonly (readonly [id: number, value: number])[]): Http2Peer;
  stop(): Promise<void>;
}

/** Starts a fast lane; options not named are harmless. */
export async function startFastLaneRig(
  handler: UnaryHandler = ECHO,
  options: Partial<FastLaneOptions> = {},
): Promise<FastLaneRig> {
  const health = options.health ?? new HealthState();
  const failures: unknown[] = [];
  const server = await startFastLane({
    host: "127.0.0.1",
    port: 0,
    methods: [{ path: SHOULD_RATE_LIMIT_PATH, handler }],
    clock: new SystemClock(),
    health,
    reflection: true,
    maxConnectionAgeMs: Number.POSITIVE_INFINITY,
    maxConnectionAgeGraceMs: 1_000,
    keepaliveMs: Number.POSITIVE_INFINITY,
    maxConcurrentStreams: 1_024,
    maxMessageBytes: 1_048_576,
    inFlightMax: 10_000,
    observer: { handlerFailed: (_path, error) => failures.push(error), overloaded: () => undefined },
    ...options,
  });
  const peers: Http2Peer[] = [];
  return {
    server,
    health,
    failures,
    target: `127.0.0.1:${server.port}`,
    peer(...settings) {
      const peer = peerOf(server.port);
      peer.greet(...settings);
      peers.push(peer);
      return peer;
    },
    async stop() {
      for (const peer of peers) peer.close();
      await server.drain(0);
    },
  };
}
