// A fast lane without sockets: connections over ends of an in-memory pair, for tests that open thousands of them.

import type { Socket } from "node:net";
import type { ServerDuplexStream } from "@grpc/grpc-js";
import { type Clock, SystemClock } from "../../src/engine/base/clock.ts";
import { AcceptedSocket } from "../../src/grpc/transport/fast-lane/accepted-socket.ts";
import type { Bounds } from "../../src/grpc/transport/fast-lane/bounds.ts";
import type { Connection } from "../../src/grpc/transport/fast-lane/connection.ts";
import { UnaryCalls } from "../../src/grpc/transport/fast-lane/grpc-call.ts";
import { Http2Server } from "../../src/grpc/transport/fast-lane/http2-server.ts";
import { PREFACE } from "../../src/grpc/transport/fast-lane/protocol.ts";
import { passThroughDefinition } from "../../src/grpc/transport/grpc-js-calls.ts";
import type { StreamMethod } from "../../src/grpc/transport/other-services.ts";
import type { UnaryHandler } from "../../src/grpc/unary.ts";
import { duplexPair } from "./duplex-pair.ts";
import { Http2Peer } from "./http2-peer.ts";

export const METHOD = "/test.Service/Method";

/** How METHOD is served: on bytes, or by a handler in the form of grpc-js, of one request or of a stream of them. */
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
  };
  const isOnBytes = way === "on bytes";
  const method = streamMethodOf(handler, way === "of a stream of requests");
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
    new Map(isOnBytes ? [] : [[METHOD, method]]),
  );
  return { server, failures };
}

// Answers each request as `handler` does.
function streamMethodOf(handler: UnaryHandler, requestStream: boolean): StreamMethod {
  const definition = { ...passThroughDefinition(METHOD), requestStream, responseStream: requestStream };
  type Call = ServerDuplexStream<Buffer, Buffer> & { readonly request: Buffer };
  const answer = (call: Call, request: Buffer, done: () => void): void => {
    handler.handle(request, Number.POSITIVE_INFINITY, {
      ok: (message) => {
        call.write(Buffer.from(message));
        done();
      },
      fail: (code, details) => call.emit("error", { code, details }),
    });
  };
  const serve = (call: Call): void => {
    if (!requestStream) answer(call, call.request, () => call.end());
    let owed = 0;
    let hasEnded = false;
    const endIfDone = () => (hasEnded && owed === 0 ? call.end() : undefined);
    call.on("data", (request: Buffer) => {
      owed++;
      answer(call, request, () => {
        owed--;
        endIfDone();
      });
    });
    call.on("end", () => {
      hasEnded = true;
      endIfDone();
    });
  };
  return { definition, handler: serve } as unknown as StreamMethod;
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
