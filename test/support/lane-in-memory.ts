// A fast lane without sockets: connections over ends of an in-memory pair, for tests that open thousands of them.

import type { Socket } from "node:net";
import { type Clock, SystemClock } from "../../src/core/clock.ts";
import type { UnaryHandler } from "../../src/core/unary.ts";
import { type Bounds, DEFAULT_BOUNDS, LaneCounts } from "../../src/transport/fast-lane/bounds.ts";
import { Connection } from "../../src/transport/fast-lane/connection.ts";
import { duplexPair } from "../../src/transport/fast-lane/duplex-pair.ts";
import { Lane } from "../../src/transport/fast-lane/lane.ts";
import { CallContext } from "../../src/transport/unary-call.ts";
import { Http2Peer } from "./http2-peer.ts";

export const METHOD = "/test.Service/Method";

/** A lane that serves METHOD and hands nothing over; `failures` are faults of its own. */
export function laneInMemory(
  handler: UnaryHandler,
  { clock = new SystemClock(), bounds = {} }: { clock?: Clock; bounds?: Partial<Bounds> } = {},
): { readonly lane: Lane; readonly failures: unknown[] } {
  const failures: unknown[] = [];
  const observer = {
    handlerFailed: (_path: string, error: unknown) => failures.push(error),
    overloaded: () => undefined,
  };
  const lane = new Lane({
    options: {
      maxConcurrentStreams: 100,
      maxMessageBytes: 100_000,
      maxConnectionAgeMs: Number.POSITIVE_INFINITY,
      maxConnectionAgeGraceMs: 1_000,
      keepaliveMs: Number.POSITIVE_INFINITY,
      httpHint: "",
    },
    bounds: { ...DEFAULT_BOUNDS, ...bounds },
    counts: new LaneCounts(),
    clock,
    context: new CallContext({ clock, observer, inFlightMax: 10_000 }),
    known: { methods: new Map([[METHOD, { path: METHOD, handler }]]), handedPaths: new Set() },
    inject: (end) => end.destroy(),
  });
  return { lane, failures };
}

/** A connection past its preface, and the peer at its other end, who sends no preface. */
export function connectInMemory(lane: Lane): { readonly connection: Connection; readonly peer: Http2Peer } {
  const [near, far] = duplexPair();
  // All that a connection asks of a socket is what any duplex stream has.
  const connection = new Connection(lane, near as unknown as Socket, undefined);
  near.on("data", (chunk: Buffer) => connection.read(chunk, 0));
  near.on("close", () => connection.socketClosed());
  return { connection, peer: new Http2Peer(far) };
}
