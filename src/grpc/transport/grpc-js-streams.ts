// Keeps away from a grpc-js server wrong requests and calls of clients whose certificate lacks the name. Bounds the
// streams that wait for their peer and the incomplete messages: grpc-js itself keeps a stream without a message until
// its connection ends, at some 7 KB. Also counts the connections that node:http2 ends for opening too many streams.

import {
  constants,
  type Http2Server,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Socket } from "node:net";
import { TLSSocket, Server as TlsServer } from "node:tls";
import type { Server } from "@grpc/grpc-js";
import { countsOf } from "../../base/counts.ts";
import { errorCode } from "../../base/thrown.ts";
import { RewrittenConnection } from "./grpc-js-connection.ts";
import { refuseHeaders, type ServedMethods } from "./grpc-js-requests.ts";
import { whyNotNamed } from "./tls-files.ts";

/** Streams of all connections that may wait for their peer: some 60 MB. */
export const GRPC_JS_WAITING_STREAMS_MAX = 8_192;

/**
 * What incomplete messages of all connections may hold. Beyond it connections with more than their share of half of it
 * end until three quarters are left, those first that have kept a stream open longest: honest ones need milliseconds.
 */
const PARTIAL_BYTES_MAX = 268_435_456;
const LEFT_SHARE = 0.75;
/** What grpc-js keeps for a piece of a message in addition to its bytes. */
const PIECE_BYTES = 256;

const TROUBLES = ["waiting_streams", "partial_requests", "stream_flood"] as const;

/** Watches the sessions of a grpc-js server. */
export class GrpcJsStreams {
  readonly connections = new Set<WatchedSession>();
  readonly troubles = countsOf(TROUBLES);
  streams = 0;
  /** Streams of all connections since the start. */
  opened = 0;
  #partialBytes = 0;
  readonly #max: number;
  readonly #clientName: string | undefined;
  readonly #served: ServedMethods;
  #shedAt: number;
  /** The connection that came last. */
  #accepted: Socket | undefined;

  /**
   * At most `max` streams wait. No call of a client whose certificate lacks `clientName` is served; undefined serves
   * all.
   */
  constructor(max: number, clientName: string | undefined, served: ServedMethods) {
    this.#served = served;
    this.#max = max;
    this.#clientName = clientName;
    this.#shedAt = max;
  }

  /** Begins to watch; to be called when `server` listens. */
  watch(server: Server): void {
    // The only access to the HTTP/2 servers of grpc-js. If a later version renames this property, the server does not
    // start.
    const { http2Servers } = server as unknown as { readonly http2Servers: ReadonlyMap<Http2Server, unknown> };
    for (const http2 of http2Servers.keys()) {
      this.#rewrite(http2);
      this.#sift(http2);
    }
  }

  /**
   * Leaves at most half of `max` waiting. Streams whose handler works are not ended; they raise the number at which to
   * look again, so that each look is paid for by half of `max` new streams.
   */
  noteOpened(): void {
    this.opened++;
    if (++this.streams < this.#shedAt) return;
    const half = Math.floor(this.#max / 2);
    const share = Math.max(1, Math.floor(half / this.connections.size));
    for (const connection of this.connections) connection.shed(share);
    this.#shedAt = Math.max(this.#max, this.streams + half);
  }

  /** Adds to what incomplete messages hold. */
  notePartial(bytes: number): void {
    this.#partialBytes += bytes;
    if (bytes <= 0 || this.#partialBytes <= PARTIAL_BYTES_MAX) return;
    const share = PARTIAL_BYTES_MAX / 2 / this.connections.size;
    const holders = [...this.connections].filter((each) => each.partialBytes > share);
    for (const each of holders.sort((a, b) => a.oldestStream - b.oldestStream)) {
      if (this.#partialBytes <= PARTIAL_BYTES_MAX * LEFT_SHARE) return;
      each.end();
    }
  }

  // node:http2 takes any Duplex as a connection, and begins its session before it returns.
  #rewrite(http2: Http2Server): void {
    const event = http2 instanceof TlsServer ? "secureConnection" : "connection";
    const listeners = http2.listeners(event) as ((...args: unknown[]) => void)[];
    http2.removeAllListeners(event);
    http2.on(event, (socket: Socket) => {
      this.#accepted = socket;
      const isOther = socket instanceof TLSSocket && socket.alpnProtocol !== "h2";
      const connection = isOther ? socket : new RewrittenConnection(socket);
      for (const listener of listeners) listener.call(http2, connection);
    });
  }

  #whyNotServed(): string | undefined {
    if (this.#clientName === undefined) return undefined;
    return whyNotNamed((this.#accepted as TLSSocket).getPeerCertificate().raw, this.#clientName);
  }

  // Most of a stream's cost is grpc-js's. So streams that were read before their connection was ended don't reach it;
  // wrong ones neither.
  #sift(http2: Http2Server): void {
    const sessions = new WeakMap<Http2Session, WatchedSession>();
    http2.on("session", (session: ServerHttp2Session) => {
      const watched = new WatchedSession(this, session, this.#whyNotServed());
      this.connections.add(watched);
      sessions.set(session, watched);
      session.once("close", () => watched.closed());
    });
    const listeners = http2.listeners("stream") as ((...args: unknown[]) => void)[];
    http2.removeAllListeners("stream");
    http2.on("stream", (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, ...rest: unknown[]) => {
      // A peer may reset a stream that never reaches grpc-js. Nobody listening, that error would end the process.
      stream.on("error", () => undefined);
      const session = stream.session && sessions.get(stream.session);
      // One that its peer has reset meanwhile is closed, and throws when it is answered.
      if (session === undefined || stream.destroyed || stream.closed) return;
      if (refuseHeaders(stream, headers, this.#served, session.refusal)) return;
      for (const listener of listeners) listener.call(http2, stream, headers, ...rest);
    });
  }
}

class WatchedSession {
  /** Why no call of this client is served; undefined if calls are served. */
  readonly refusal: string | undefined;
  /** What came on its open streams; a smaller number would need grpc-js's internals for each call. */
  partialBytes = 0;
  readonly #all: GrpcJsStreams;
  readonly #session: ServerHttp2Session;
  /** Those that are open, with the number of streams that the server had opened before each. */
  readonly #streams = new Map<ServerHttp2Stream, number>();

  constructor(all: GrpcJsStreams, session: ServerHttp2Session, refusal: string | undefined) {
    this.refusal = refusal;
    this.#all = all;
    this.#session = session;
    session.once("error", (error) => {
      if (errorCode(error) === "ERR_HTTP2_TOO_MANY_INVALID_FRAMES") all.troubles.stream_flood++;
    });
    session.prependListener("stream", (stream: ServerHttp2Stream) => {
      if (stream.destroyed) return;
      this.#streams.set(stream, all.opened);
      let bytes = 0;
      stream.on("data", (piece: Buffer) => {
        bytes += piece.length + PIECE_BYTES;
        this.#notePartial(piece.length + PIECE_BYTES);
      });
      stream.once("close", () => {
        this.#streams.delete(stream);
        this.#all.streams--;
        this.#notePartial(-bytes);
      });
      this.#all.noteOpened();
    });
  }

  /** The smaller, the longer a stream has been open here. */
  get oldestStream(): number {
    return this.#streams.values().next().value ?? this.#all.opened;
  }

  /** Ends the connection because of what its incomplete messages hold. */
  end(): void {
    this.#all.troubles.partial_requests++;
    this.#destroy();
  }

  // Its streams close later; until then it must not be the one with the most again.
  #destroy(): void {
    this.closed();
    this.#session.destroy();
  }

  closed(): void {
    this.#all.connections.delete(this);
    this.#all.notePartial(-this.partialBytes);
    this.partialBytes = 0;
  }

  #notePartial(bytes: number): void {
    if (this.#session.destroyed) return;
    this.partialBytes += bytes;
    this.#all.notePartial(bytes);
  }

  /** Ends the connection: node:http2 takes longer to reset a stream than a peer to open one. */
  shed(share: number): void {
    if (this.#streams.size <= share) return;
    let waiting = 0;
    for (const stream of this.#streams.keys()) if (waitsForPeer(stream)) waiting++;
    if (waiting <= share) return;
    this.#all.troubles.waiting_streams += waiting;
    this.#destroy();
  }
}

function waitsForPeer(stream: ServerHttp2Stream): boolean {
  return stream.state.state === constants.NGHTTP2_STREAM_STATE_OPEN || stream.writableLength > 0;
}
