// A port that takes unary calls of gRPC over HTTP/2 and passes them on, bytes unchanged: those of one method to a handler, all others to the
// target that answers. It decodes no messages.

import {
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type ServerStreamResponseOptions,
} from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { listenTrouble } from "../../../engine/base/cannot-listen.ts";
import { ConfigError } from "../../../engine/base/errors.ts";
import { MICROS_PER_MILLI } from "../../../engine/base/units.ts";
import { waitAtMost } from "../../../engine/base/wait-at-most.ts";
import { GrpcStatus } from "../../unary.ts";
import { failureHeaders, readTimeoutUs } from "../grpc-headers.ts";
import { ByteAccount, type ByteBudget, PIECE_BYTES } from "./byte-budget.ts";
import {
  FRAME_HEADER_BYTES,
  headerLines,
  type RelayedRequest,
  type UnaryOutcome,
  type UnaryTarget,
} from "./unary-exchange.ts";

/** A call that waits for its answer. */
export interface RelayedCall {
  readonly request: RelayedRequest;
  /** Sends the outcome to the caller, once; does nothing if the caller has gone. */
  answer(outcome: UnaryOutcome): void;
  /** `ended` is called once, when the caller has read the whole answer, or has gone. */
  onEnded(ended: () => void): void;
}

interface RelayServerOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** The method whose calls go to the handler, as `/package.Service/Method`. */
  readonly path: string;
  readonly handle: (call: RelayedCall) => void;
  /** The target of all other calls. */
  readonly passOn: UnaryTarget;
  readonly messageBytesMax: number;
  /** Bounds what all requests take, from their first byte until their streams close. */
  readonly memory: ByteBudget;
  /** Calls that may wait for their answer; further ones get RESOURCE_EXHAUSTED. */
  readonly inFlightMax: number;
  /** Time limit of a call, in milliseconds; a shorter `grpc-timeout` counts before it. */
  readonly callMsMax: number;
}

/** Methods whose answers are a stream: they would wait here until their deadline. */
const STREAMED = /^\/grpc\.(?:health\.v1\.Health\/Watch|reflection\.)/;

const STREAMS_MAX = 4_096;
const WINDOW_BYTES = 1_048_576;
const SESSION_MEGABYTES_MAX = 64;
const KEEPALIVE_MS = 60_000;

/** The port of a relay. */
export class RelayServer {
  readonly #options: RelayServerOptions;
  readonly #server: Http2Server;
  readonly #sessions = new Set<ServerHttp2Session>();
  #inFlight = 0;

  constructor(options: RelayServerOptions) {
    this.#options = options;
    this.#server = createServer({
      maxSessionMemory: SESSION_MEGABYTES_MAX,
      settings: { maxConcurrentStreams: STREAMS_MAX, initialWindowSize: WINDOW_BYTES },
    });
    // TCP keepalive finds out that a caller's machine has vanished, and closes the connection.
    this.#server.on("connection", (socket: Socket) => socket.setKeepAlive(true, KEEPALIVE_MS));
    this.#server.on("session", (session) => {
      this.#sessions.add(session);
      session.once("close", () => this.#sessions.delete(session));
    });
    // An error of one caller's connection must end only its own streams.
    this.#server.on("sessionError", (_error, session) => session?.destroy());
    this.#server.on(
      "stream",
      (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _flags: number, raw: readonly string[]) =>
        this.#take(stream, headerLines(headers, raw)),
    );
  }

  /** Calls that wait for their answer. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Starts to listen; resolves to the port. Rejects with ConfigError if it can't. */
  listen(): Promise<number> {
    const { host, port } = this.#options;
    return new Promise((resolve, reject) => {
      this.#server.once("error", (cause: NodeJS.ErrnoException) => {
        reject(new ConfigError("CONFIG_SETTINGS", `gRPC can't listen on ${host}:${port}: ${listenTrouble(cause)}`));
      });
      this.#server.listen(port, host, () => resolve((this.#server.address() as AddressInfo).port));
    });
  }

  /** Accepts no new connections and calls, lets calls under way finish, and cuts off what is left after `graceMs` milliseconds. */
  async close(graceMs: number): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const session of this.#sessions) session.close();
    if (!(await waitAtMost(graceMs, closed))) for (const session of this.#sessions) session.destroy();
    await closed;
  }

  #take(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    // Its close follows, and that is handled.
    stream.on("error", () => stream.close());
    if (STREAMED.test(headers[":path"] ?? "")) {
      failStream(stream, GrpcStatus.unimplemented, "no streams pass here; ask the service behind this port");
      return;
    }
    if (this.#inFlight >= this.#options.inFlightMax) {
      failStream(stream, GrpcStatus.resourceExhausted, `more than ${this.#options.inFlightMax} calls in flight`);
      return;
    }
    this.#inFlight++;
    const overdue = this.#endAtDeadline(stream, headers);
    stream.once("close", () => {
      this.#inFlight--;
      clearTimeout(overdue);
    });
    this.#collect(stream, headers);
  }

  // The time runs from the headers, so that a request which never ends is dropped too. The handler learns of it by the stream's close.
  #endAtDeadline(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): NodeJS.Timeout {
    const { callMsMax } = this.#options;
    const askedMs = Math.ceil(readTimeoutUs(String(headers["grpc-timeout"])) / MICROS_PER_MILLI);
    const afterMs = askedMs < callMsMax ? askedMs : callMsMax;
    return setTimeout(() => {
      failStream(stream, GrpcStatus.deadlineExceeded, `no answer within ${afterMs} ms`);
      // If an answer is on its way, its rest is not waited for.
      stream.close(stream.writableEnded ? constants.NGHTTP2_NO_ERROR : constants.NGHTTP2_CANCEL);
    }, afterMs);
  }

  #collect(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const { messageBytesMax, memory, path, handle } = this.#options;
    const account = new ByteAccount(memory);
    stream.once("close", () => account.close());
    const chunks: Buffer[] = [];
    let bytes = 0;
    const refuse = (why: string) => {
      chunks.length = 0;
      account.close();
      failStream(stream, GrpcStatus.resourceExhausted, why);
    };
    stream.on("data", (chunk: Buffer) => {
      if (stream.headersSent) return;
      bytes += chunk.length;
      if (bytes > messageBytesMax + FRAME_HEADER_BYTES) {
        refuse(`expected a message of at most ${messageBytesMax} bytes`);
      } else if (!account.take(chunk.length + PIECE_BYTES)) {
        refuse(`calls under way hold more than ${memory.max} bytes`);
      } else chunks.push(chunk);
    });
    stream.once("end", () => {
      if (stream.headersSent || stream.destroyed) return;
      const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, bytes);
      const call: RelayedCall = {
        request: { headers, body },
        answer: (outcome) => answerStream(stream, outcome),
        onEnded: (ended) => stream.once("close", ended),
      };
      if (headers[":path"] === path) handle(call);
      else this.#passOn(call);
    });
  }

  #passOn(call: RelayedCall): void {
    const { memory, passOn } = this.#options;
    const account = new ByteAccount(memory);
    const admits = (bytes: number) => account.take(bytes);
    const sent = passOn.send(call.request, { admits }, (outcome) => call.answer(outcome));
    call.onEnded(() => {
      account.close();
      sent.cancel("cancelled");
    });
  }
}

function answerStream(stream: ServerHttp2Stream, outcome: UnaryOutcome): void {
  if (stream.destroyed || stream.closed) return;
  if (outcome.kind === "failure") {
    failStream(stream, GrpcStatus.unavailable, outcome.message);
    return;
  }
  const { headers, body, trailers } = outcome;
  if (trailers === undefined && body.length === 0) {
    respond(stream, headers, { endStream: true });
    return;
  }
  respond(stream, headers, { waitForTrailers: trailers !== undefined });
  if (trailers !== undefined) stream.once("wantTrailers", () => sendTrailers(stream, trailers));
  stream.end(body);
}

// No `date` is added: a target that wants one has sent it. Node's types lack the option.
function respond(stream: ServerHttp2Stream, headers: OutgoingHttpHeaders, options: ServerStreamResponseOptions): void {
  const withoutDate: ServerStreamResponseOptions & { readonly sendDate: boolean } = { ...options, sendDate: false };
  stream.respond(headers, withoutDate);
}

function sendTrailers(stream: ServerHttp2Stream, trailers: OutgoingHttpHeaders): void {
  if (!stream.destroyed && !stream.closed) stream.sendTrailers(trailers);
}

function failStream(stream: ServerHttp2Stream, status: GrpcStatus, message: string): void {
  if (stream.destroyed || stream.closed || stream.headersSent) return;
  respond(stream, failureHeaders(status, message), { endStream: true });
}
