// A fast lane on a free port, with methods of the test's choice.

import { type FastLaneOptions, startFastLane } from "../../src/grpc/transport/fast-lane.ts";
import type { UnaryHandler } from "../../src/grpc/unary.ts";
import { startWith, type TestServer } from "./grpc-test-server.ts";
import { type Http2Peer, peerOf } from "./http2-peer.ts";

type FastLaneServer = Awaited<ReturnType<typeof startFastLane>>;

export const ECHO: UnaryHandler = { handle: (message, _deadlineUs, reply) => reply.ok(message) };

/** A server under test, and peers for it. */
export interface FastLaneRig extends TestServer<FastLaneServer> {
  /** A peer that has greeted. */
  peer(...settings: readonly (readonly [id: number, value: number])[]): Http2Peer;
}

/** Starts a fast lane; options not named are harmless. */
export async function startFastLaneRig(
  handler: UnaryHandler = ECHO,
  options: Partial<FastLaneOptions> = {},
): Promise<FastLaneRig> {
  const started = await startWith(startFastLane, handler, options);
  const { server } = started;
  return {
    ...started,
    peer(...settings) {
      const peer = peerOf(server.port);
      peer.greet(...settings);
      return peer;
    },
  };
}
