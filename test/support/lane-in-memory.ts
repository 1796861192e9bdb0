// A fast lane without sockets: connections over ends of an in-memory pair, for tests that open thousands of them.

import type { Socket } from "node:net";
import type { ServerDuplexStream } from "@grpc/grpc-js";
import { type Clock, SystemClock } from "../../src/engine/base/clock.ts";
import { type Bounds, DEFAULT_BOUNDS, LaneCounts } from "../../src/grpc/transport/fast-lane/bounds.ts";
import { Connection } from "../../src/grpc/transport/fast-lane/connection.ts";
import { Lane } from "../../src/grpc/transport/fast-lane/lane.ts";
import type { StreamMethod } from "../../src/grpc/transport/other-services.ts";
import { CallContext, passThroughDefinition } from "../../src/grpc/transport/unary-call.ts";
import type { UnaryHandler } from "../../src/grpc/unary.ts";
import { duplexPair } from "./duplex-pair.ts";
import { Http2Peer } from "./http2-peer.ts";

export const METHOD = "/test.Service/Method";

/** How METHOD is served: on bytes, or by a handler in the form of grpc-js, of one request or of a stream of them. */
export const WAYS = ["on bytes", "of one request", "of a stream of requests"] as const;
type Way = (typeof WAYS)[number];

/** A lane that serves METHOD and nothing else; `failures` are faults of its own. */
export function laneInMemory(
  handler: UnaryHandler,
  {
    clock = new SystemClock(),
    bounds = {},
    way = "on bytes",
  }: { clock?: Clock; bounds?: Partial<Bounds>; way?: Way } = {},
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
    known: {
      methods: new Map(way === "on bytes" ? [[METHOD, { path: METHOD, handler }]] : []),
      streams: new Map(
        way === "on bytes" ? [] : [[METHOD, streamMethodOf(handler, way === "of a stream of requests")]],
      ),
    },
  });
  return { lane, failures };
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
export function connectInMemory(lane: Lane): { readonly connection: Connection; readonly peer: Http2Peer } {
  const [near, far] = duplexPair();
  // All that a connection asks of a socket is what any duplex stream has.
  const connection = new Connection(lane, near as unknown as Socket, undefined);
  near.on("data", (chunk: Buffer) => connection.read(chunk, 0));
  near.on("close", () => connection.socketClosed());
  return { connection, peer: new Http2Peer(far) };
}
