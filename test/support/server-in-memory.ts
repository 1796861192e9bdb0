// A fast lane without sockets: connections over ends of an in-memory pair, for tests that open thousands of them.

import type { Socket } from "node:net";
import { type Clock, SystemClock } from "../../src/base/clock.ts";
import { AcceptedSocket } from "../../src/grpc/transport/fast-lane/accepted-socket.ts";
import type { Bounds } from "../../src/grpc/transport/fast-lane/bounds.ts";
import type { Connection } from "../../src/grpc/transport/fast-lane/connection.ts";
import { UnaryCalls } from "../../src/grpc/transport/fast-lane/grpc-call.ts";
import { Http2Server } from "../../src/grpc/transport/fast-lane/http2-server.ts";
import { PREFACE } from "../../src/grpc/transport/fast-lane/protocol.ts";
import { onBytes } from "../../src/grpc/transport/grpc-js-calls.ts";
import type { MessageCall, MessageMethod } from "../../src/grpc/transport/transport.ts";
import type { UnaryHandler } from "../../src/grpc/unary.ts";
import { duplexPair } from "./duplex-pair.ts";
import { Http2Peer } from "./http2-peer.ts";

export const METHOD = "/test.Service/Method";

/** How METHOD is served: on bytes, or like health and reflection, of one request or of a stream of them. */
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
  const isOnBytes = way === "on bytes";
  const method = messageMethodOf(handler, way === "of a stream of requests");
  const server = new Http2Server(
    {
      methods: isOnBytes ? [{ path: METHOD, handler }] : [],
      clock,
      observer,
      bounds,
      maxConcurrentStreams: 100,
      maxMessageBytes: 100_000,
      maxConnectionAgeMs: Number.POSITIVE_INFINITY,
      maxConnectionAgeGraceMs: 1_000,
      keepaliveMs: Number.POSITIVE_INFINITY,
      inFlightMax: 10_000,
    },
    isOnBytes ? [] : [method],
  );
  return { server, failures };
}

// Answers each request as `handler` does, and ends the call after the last answer.
function messageMethodOf(handler: UnaryHandler, requestStream: boolean): MessageMethod {
  const open = new Map<MessageCall, { owed: number; hasAll: boolean }>();
  return {
    definition: onBytes({
      path: METHOD,
      requestStream,
      responseStream: false,
    }) as unknown as MessageMethod["definition"],
    handle(request, call) {
      const state = open.get(call) ?? { owed: 0, hasAll: !requestStream };
      open.set(call, state);
      const endIfDone = () => (state.hasAll && state.owed === 0 ? call.end() : undefined);
      if (request === undefined) {
        state.hasAll = true;
        endIfDone();
        return;
      }
      state.owed++;
      handler.handle(request as Buffer, Number.POSITIVE_INFINITY, {
        ok(message) {
          call.answer(Buffer.from(message));
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
