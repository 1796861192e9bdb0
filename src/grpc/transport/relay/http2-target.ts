// A target of a relay: keeps a connection to it and sends unary calls. It reconnects by itself. A call that the target refused unseen,
// because its connection was ending, is sent once more.

import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type Http2Session,
  type IncomingHttpHeaders,
} from "node:http2";
import type { Clock } from "../../../engine/base/clock.ts";
import { PIECE_BYTES } from "./byte-budget.ts";
import {
  type FailureReason,
  FRAME_HEADER_BYTES,
  headerLines,
  type RelayedRequest,
  type SendOptions,
  type SentCall,
  type UnaryOutcome,
  type UnaryTarget,
} from "./unary-exchange.ts";

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

/** A target at `host:port`. */
export class Http2Target implements UnaryTarget {
  readonly authority: string;
  readonly #options: Http2TargetOptions;
  #session: ClientHttp2Session | undefined;
  #pausedUntilUs = 0;
  #isClosed = false;

  constructor(options: Http2TargetOptions) {
    this.authority = options.authority;
    this.#options = options;
  }

  /** Whether there is a connection right now. */
  get isConnected(): boolean {
    return this.#session !== undefined && isUsable(this.#session) && !this.#session.connecting;
  }

  send(request: RelayedRequest, options: SendOptions, done: (outcome: UnaryOutcome) => void): SentCall {
    const bytesMax = this.#options.messageBytesMax + FRAME_HEADER_BYTES;
    const call = new Http2Call(this, { ...options, request, bytesMax, done });
    call.start();
    return call;
  }

  /** Opens a stream with these headers; undefined if the target can't be reached right now. */
  open(headers: IncomingHttpHeaders): ClientHttp2Stream | undefined {
    const session = this.#usableSession();
    if (session === undefined) return undefined;
    try {
      return session.request({ ...headers, ":authority": this.authority, ":scheme": "http" }, { endStream: false });
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
    if (this.#isClosed || this.#options.clock.nowUs() < this.#pausedUntilUs) return undefined;
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
      if (session.connecting) this.#pausedUntilUs = this.#options.clock.nowUs() + RECONNECT_PAUSE_US;
    });
    session.once("close", () => {
      clearTimeout(giveUp);
      clearInterval(pings);
    });
    return session;
  }
}

interface AskedCall extends SendOptions {
  readonly request: RelayedRequest;
  readonly bytesMax: number;
  readonly done: (outcome: UnaryOutcome) => void;
}

/** One call on a target's connection. */
class Http2Call implements SentCall {
  readonly #target: Http2Target;
  readonly #asked: AskedCall;
  #stream: ClientHttp2Stream | undefined;
  // `ended`: the whole body has come, and its trailers may follow.
  #state: "open" | "ended" | "broken" | "done" = "open";
  #sends = 0;
  #headers: IncomingHttpHeaders | undefined;
  #trailers: IncomingHttpHeaders | undefined;
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(target: Http2Target, asked: AskedCall) {
    this.#target = target;
    this.#asked = asked;
  }

  start(): void {
    this.#sends++;
    this.#state = "open";
    const stream = this.#target.open(this.#asked.request.headers);
    if (stream === undefined) {
      setImmediate(() => this.#fail("unreachable", `no connection to ${this.#target.authority}`));
      return;
    }
    this.#stream = stream;
    const { session } = stream;
    stream.on("response", (headers: IncomingHttpHeaders, _flags: number, raw: readonly string[]) => {
      this.#headers = headerLines(headers, raw);
    });
    stream.on("trailers", (trailers: IncomingHttpHeaders, _flags: number, raw: readonly string[]) => {
      this.#trailers = headerLines(trailers, raw);
      if (this.#state === "ended") this.#finish();
    });
    stream.on("data", (chunk: Buffer) => this.#keep(chunk));
    stream.on("end", () => {
      if (this.#state === "open") this.#state = "ended";
      if (this.#trailers !== undefined || this.#headers?.["grpc-status"] !== undefined) this.#finish();
    });
    stream.on("error", () => {
      if (this.#state !== "done") this.#state = "broken";
    });
    stream.on("close", () => this.#closed(stream, session));
    stream.end(this.#asked.request.body);
  }

  cancel(reason: FailureReason): void {
    if (this.#state === "done") return;
    this.#fail(reason, "given up");
    this.#stream?.close(constants.NGHTTP2_CANCEL);
  }

  #keep(chunk: Buffer): void {
    if (this.#state === "done") return;
    this.#bytes += chunk.length;
    if (this.#bytes > this.#asked.bytesMax || this.#asked.admits?.(chunk.length + PIECE_BYTES) === false) {
      this.#fail("too_large", "the answer, or all answers together, are longer than what is kept");
      this.#stream?.close(constants.NGHTTP2_CANCEL);
    } else this.#chunks.push(chunk);
  }

  // A session that has never connected is `connecting` for ever: its calls never reached the target.
  #closed(stream: ClientHttp2Stream, session: Http2Session | undefined): void {
    if (this.#state === "done" || stream !== this.#stream) return;
    if (this.#state === "ended" && this.#headers !== undefined && stream.rstCode === constants.NGHTTP2_NO_ERROR) {
      this.#finish();
    } else if (stream.rstCode === constants.NGHTTP2_REFUSED_STREAM && this.#headers === undefined) {
      if (this.#sends < SENDS_MAX) this.start();
      else this.#fail("refused", `${this.#target.authority} refused the call unseen`);
    } else if (session === undefined || session.connecting) {
      this.#fail("unreachable", `no connection to ${this.#target.authority}`);
    } else this.#fail("broken", `${this.#target.authority} broke off the call`);
  }

  #finish(): void {
    if (this.#state === "done" || this.#headers === undefined) return;
    this.#state = "done";
    const chunks = this.#chunks;
    const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, this.#bytes);
    this.#asked.done({ kind: "answer", headers: this.#headers, body, trailers: this.#trailers });
  }

  #fail(reason: FailureReason, message: string): void {
    if (this.#state === "done") return;
    this.#state = "done";
    this.#chunks = [];
    this.#asked.done({ kind: "failure", reason, message });
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
