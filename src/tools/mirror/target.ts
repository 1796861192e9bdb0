// A service that the mirror asks, over HTTP/2: keeps a connection to it and sends unary calls. It reconnects by itself.
// Sends a call once more if the target refused it unseen, because its connection was ending.

import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type Http2Session,
  type IncomingHttpHeaders,
} from "node:http2";
import type { Clock } from "../../base/clock.ts";
import { SHOULD_RATE_LIMIT_PATH } from "../../grpc/transport/load-proto.ts";
import { PIECE_BYTES } from "./byte-budget.ts";

/** A caller's request of ShouldRateLimit. */
export interface TargetRequest {
  readonly message: Buffer;
  /** The time until its deadline when it came, in milliseconds. */
  readonly timeoutMs: number;
  readonly traceparent: string | undefined;
}

/**
 * Why the target has not answered. `unreachable`: it never processed the call; `unreadable`: what came is no answer of
 * gRPC.
 */
export type FailureReason = "unreachable" | "broken" | "unreadable" | "too_large" | "too_slow" | "cancelled";

/** The outcome of a call. An `answer` with another code than 0 is an error status of gRPC, without message. */
export type TargetOutcome =
  | { readonly kind: "answer"; readonly code: number; readonly details: string; readonly message: Buffer }
  | { readonly kind: "failure"; readonly reason: FailureReason; readonly message: string };

/** A call that was sent and can be cancelled. */
export interface SentCall {
  /** Ends the call if it is still under way; its outcome is then a failure with this reason. */
  cancel(reason: FailureReason, message?: string): void;
}

/**
 * Asked before each piece of an answer is kept, with the bytes of memory that it takes; false ends the call as
 * `too_large`.
 */
export type Admits = (bytes: number) => boolean;

/** Something that answers unary calls. */
export interface Target {
  /** Sends the request; `done` is called once, later, with the outcome. Never throws. */
  send(request: TargetRequest, admits: Admits, done: (outcome: TargetOutcome) => void): SentCall;
}

interface Http2TargetOptions {
  /** `host:port`; the connection is plaintext. */
  readonly authority: string;
  /** Longest answer that is kept, in bytes; a longer one is a failure. */
  readonly messageBytesMax: number;
  readonly clock: Clock;
}

const CONNECT_TIMEOUT_MS = 2_000;
/** After a failed connection calls fail at once for this long; then the next call tries to connect. */
const RECONNECT_PAUSE_US = 100_000;
const PING_INTERVAL_MS = 10_000;
const WINDOW_BYTES = 1_048_576;
/** Node.js refuses streams above this; its default of 10 is too little for thousands of calls at once. */
const SESSION_MEGABYTES_MAX = 64;
const SENDS_MAX = 2;
/** Bytes before a gRPC message: a byte for compression, and four for the length. */
const HEAD_BYTES = 5;
const NO_MESSAGE = Buffer.alloc(0);

/** A target at `host:port`. */
export class Http2Target implements Target {
  readonly authority: string;
  readonly messageBytesMax: number;
  readonly #clock: Clock;
  #session: ClientHttp2Session | undefined;
  #pausedUntilUs = 0;
  #isClosed = false;

  constructor({ authority, messageBytesMax, clock }: Http2TargetOptions) {
    this.authority = authority;
    this.messageBytesMax = messageBytesMax;
    this.#clock = clock;
  }

  /** Whether there is a connection right now. */
  get isConnected(): boolean {
    return this.#session !== undefined && isUsable(this.#session) && !this.#session.connecting;
  }

  send(request: TargetRequest, admits: Admits, done: (outcome: TargetOutcome) => void): SentCall {
    return new Http2Call(this, { request, admits, done });
  }

  /** Opens the stream of a call; undefined if the target can't be reached right now. */
  open({ message, timeoutMs, traceparent }: TargetRequest): ClientHttp2Stream | undefined {
    const session = this.#usableSession();
    if (session === undefined) return undefined;
    const head = Buffer.alloc(HEAD_BYTES);
    head.writeUInt32BE(message.length, 1);
    try {
      const stream = session.request({
        ":method": "POST",
        ":path": SHOULD_RATE_LIMIT_PATH,
        ":authority": this.authority,
        "content-type": "application/grpc",
        te: "trailers",
        "grpc-timeout": `${timeoutMs}m`,
        "user-agent": "headgate-mirror",
        ...(traceparent === undefined ? {} : { traceparent }),
      });
      stream.end(Buffer.concat([head, message]));
      return stream;
    } catch {
      // The session ended in between; the target is not reachable at the moment.
      return undefined;
    }
  }

  /** Connects now, so that the first call need not wait for the connection. */
  connect(): void {
    this.#usableSession();
  }

  /** Ends the connection; calls under way fail. */
  close(): void {
    this.#isClosed = true;
    this.#session?.destroy();
  }

  #usableSession(): ClientHttp2Session | undefined {
    if (this.#session !== undefined && isUsable(this.#session)) return this.#session;
    if (this.#isClosed || this.#clock.nowUs() < this.#pausedUntilUs) return undefined;
    this.#session = this.#connect();
    return this.#session;
  }

  #connect(): ClientHttp2Session {
    const session = connect(`http://${this.authority}`, {
      maxSessionMemory: SESSION_MEGABYTES_MAX,
      settings: { enablePush: false, initialWindowSize: WINDOW_BYTES },
    });
    const giveUp = setTimeout(
      () => session.destroy(new Error(`no connection within ${CONNECT_TIMEOUT_MS} ms`)),
      CONNECT_TIMEOUT_MS,
    );
    const pings = setInterval(() => keepAlive(session), PING_INTERVAL_MS).unref();
    session.once("connect", () => {
      clearTimeout(giveUp);
      session.setLocalWindowSize(WINDOW_BYTES);
    });
    // Every stream of the session gets the error too. Without a listener here it would end the process.
    session.on("error", () => {
      if (session.connecting) this.#pausedUntilUs = this.#clock.nowUs() + RECONNECT_PAUSE_US;
    });
    session.once("close", () => {
      clearTimeout(giveUp);
      clearInterval(pings);
    });
    return session;
  }
}

interface AskedCall {
  readonly request: TargetRequest;
  readonly admits: Admits;
  readonly done: (outcome: TargetOutcome) => void;
}

/** One call on a target's connection. */
class Http2Call implements SentCall {
  readonly #target: Http2Target;
  readonly #asked: AskedCall;
  #stream: ClientHttp2Stream | undefined;
  #isDone = false;
  #sends = 0;
  /** Headers and trailers of the answer; undefined before they came. */
  #fields: IncomingHttpHeaders | undefined;
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(target: Http2Target, asked: AskedCall) {
    this.#target = target;
    this.#asked = asked;
    this.#start();
  }

  #start(): void {
    this.#sends++;
    const stream = this.#target.open(this.#asked.request);
    if (stream === undefined) {
      setImmediate(() => this.#fail("unreachable", `no connection to ${this.#target.authority}`));
      return;
    }
    this.#stream = stream;
    const { session } = stream;
    let hasEnded = false;
    const takeFields = (fields: IncomingHttpHeaders) => {
      this.#fields = { ...this.#fields, ...fields };
    };
    stream.on("response", takeFields);
    stream.on("trailers", takeFields);
    stream.on("data", (chunk: Buffer) => this.#keep(chunk));
    stream.on("end", () => {
      hasEnded = true;
    });
    // Its close follows, and that is handled.
    stream.on("error", () => undefined);
    stream.on("close", () => this.#closed(stream, session, hasEnded));
  }

  cancel(reason: FailureReason, message = "given up"): void {
    if (this.#isDone) return;
    this.#fail(reason, message);
    this.#stream?.close(constants.NGHTTP2_CANCEL);
  }

  #keep(chunk: Buffer): void {
    if (this.#isDone) return;
    this.#bytes += chunk.length;
    if (this.#bytes > this.#target.messageBytesMax + HEAD_BYTES || !this.#asked.admits(chunk.length + PIECE_BYTES)) {
      this.cancel("too_large", "the answer, or all answers together, are longer than what is kept");
    } else this.#chunks.push(chunk);
  }

  // A session that has never connected stays `connecting`: its calls never reached the target.
  #closed({ rstCode }: ClientHttp2Stream, session: Http2Session | undefined, hasEnded: boolean): void {
    if (this.#isDone) return;
    const { authority } = this.#target;
    if (hasEnded && this.#fields !== undefined && rstCode === constants.NGHTTP2_NO_ERROR) this.#finish(this.#fields);
    else if (rstCode === constants.NGHTTP2_REFUSED_STREAM && this.#fields === undefined) {
      if (this.#sends < SENDS_MAX) this.#start();
      else this.#fail("unreachable", `${authority} refused the call unseen`);
    } else if (session === undefined || session.connecting) {
      this.#fail("unreachable", `no connection to ${authority}`);
    } else this.#fail("broken", `${authority} broke off the call`);
  }

  #finish(fields: IncomingHttpHeaders): void {
    const status = fields["grpc-status"];
    const code = typeof status === "string" && /^\d{1,3}$/.test(status) ? Number(status) : undefined;
    const message = code === 0 ? messageOf(Buffer.concat(this.#chunks, this.#bytes)) : NO_MESSAGE;
    if (code === undefined || message === undefined) {
      this.#fail("unreadable", `${this.#target.authority} gave no answer of gRPC`);
      return;
    }
    this.#isDone = true;
    this.#asked.done({ kind: "answer", code, details: detailsOf(fields["grpc-message"]), message });
  }

  #fail(reason: FailureReason, message: string): void {
    if (this.#isDone) return;
    this.#isDone = true;
    this.#chunks = [];
    this.#asked.done({ kind: "failure", reason, message });
  }
}

/**
 * The message of a body with gRPC framing; undefined if it is not one whole message, or compressed, which nobody asked
 * for.
 */
function messageOf(body: Buffer): Buffer | undefined {
  const length = body.length < HEAD_BYTES ? -1 : body.readUInt32BE(1);
  return length === body.length - HEAD_BYTES && body[0] === 0 ? body.subarray(HEAD_BYTES) : undefined;
}

/** The text of a `grpc-message`, with bytes escaped as %XX. */
function detailsOf(value: string | string[] | undefined): string {
  const text = String(value ?? "");
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function isUsable(session: ClientHttp2Session): boolean {
  return !session.closed && !session.destroyed;
}

// A peer that has vanished answers no ping, and its connection is replaced half an interval later.
function keepAlive(session: ClientHttp2Session): void {
  if (session.connecting || !isUsable(session)) return;
  const giveUp = setTimeout(() => session.destroy(new Error("no answer to a ping")), PING_INTERVAL_MS / 2);
  session.ping((error) => {
    clearTimeout(giveUp);
    if (error !== null) session.destroy();
  });
}
