// A fast lane without sockets: connections over ends of an in-memory pair, for tests that open thousands of them.

import type { Socket } from "node:net";
import { AcceptedSocket } from "../../packages/fast-lane/src/accepted-socket.ts";
import type { Bounds } from "../../packages/fast-lane/src/bounds.ts";
import type { Connection } from "../../packages/fast-lane/src/connection.ts";
import { UnaryCalls } from "../../packages/fast-lane/src/grpc-call.ts";
import { Http2Server } from "../../packages/fast-lane/src/http2-server.ts";
import type { StreamCall, StreamMethod, UnaryHandler } from "../../packages/fast-lane/src/methods.ts";
import { PREFACE } from "../../packages/fast-lane/src/protocol.ts";
import { DEFAULTS } from "../../packages/fast-lane/src/server-options.ts";
import { type Clock, SystemClock } from "../../src/base/clock.ts";
import { duplexPair } from "./duplex-pair.ts";
import { Http2Peer } from "./http2-peer.ts";

export const METHOD = "/test.Service/Method";

/** How METHOD is served: on bytes, or with any number of answers, of one request or of a stream of them. */
export const WAYS = ["on bytes", "of one request", "of a stream of requests"] as const;
type Way = (typeof WAYS)[number];

/** A server that serves METHOD and nothing else; `failures` are faults of its own. */
export function serverInMemory(
  handler: UnaryHandler,
  {
    clock = new SystemClock(),
    bounds = {},
    way = "on bytes",
  }: { clock?: Clock; bounds?: Partial<Bounds>; way?: Way } = {},
): { readonly server: Http2Server; readonly failures: unknown[] } {
  const failures: unknown[] = [];
  const observer = {
    handlerFailed: (_path: string, error: unknown) => failures.push(error),
    overloaded: () => undefined,
    unserved: () => undefined,
  };
  const server = new Http2Server({
    ...DEFAULTS,
    methods: way === "on bytes" ? [{ path: METHOD, handler }] : [streamMethodOf(handler, way)],
    clock,
    observer,
    bounds,
    maxConcurrentStreams: 100,
    maxMessageBytes: 100_000,
    maxConnectionAgeGraceMs: 1_000,
    keepaliveMs: Number.POSITIVE_INFINITY,
  });
  return { server, failures };
}

// Answers each request as `handler` does, and ends the call after the last answer.
function streamMethodOf(handler: UnaryHandler, way: Way): StreamMethod {
  const open = new Map<StreamCall, { owed: number; hasAll: boolean }>();
  const takesMany = way === "of a stream of requests";
  return {
    path: METHOD,
    takesMany,
    handle(request, call) {
      const state = open.get(call) ?? { owed: 0, hasAll: !takesMany };
      open.set(call, state);
      const endIfDone = () => (state.hasAll && state.owed === 0 ? call.end() : undefined);
      if (request === undefined) {
        state.hasAll = true;
        endIfDone();
        return;
      }
      state.owed++;
      handler.handle(request, Number.POSITIVE_INFINITY, {
        ok(message) {
          call.answer(message);
          state.owed--;
          endIfDone();
        },
        fail: (code, details) => call.end({ code, details }),
      });
    },
  };
}

/** A connection past its preface, and the peer at its other end, who sends no preface. */
export function connectInMemory(server: Http2Server): {
  readonly connection: Connection;
  readonly accepted: AcceptedSocket;
  readonly peer: Http2Peer;
} {
  const [near, far] = duplexPair();
  // All that a connection asks of a socket is what any duplex stream has.
  const accepted = new AcceptedSocket(server, new UnaryCalls(server), near as unknown as Socket);
  near.emit("data", PREFACE);
  return { connection: accepted.connection as Connection, accepted, peer: new Http2Peer(far) };
}
