// An accepted socket: first its preface, then its connection. Checks once a second what is overdue; nothing here runs
// for a single call.

import type { Socket } from "node:net";
import { Connection } from "./connection.ts";
import { FrameIntake } from "./frame-intake.ts";
import type { UnaryCalls } from "./grpc-call.ts";
import type { Http2Server } from "./http2-server.ts";
import { ErrorCode, PREFACE } from "./protocol.ts";
import { MICROS_PER_MILLI, MICROS_PER_SECOND } from "./time.ts";

/** Ages vary by up to a tenth, so that connections made together don't end together. */
const AGE_JITTER = 0.1;
/** Time for a peer to read the last answers, and to close after our GOAWAY. */
const ENDING_US = 5 * MICROS_PER_SECOND;
/** The second GOAWAY follows the first after this time, even if the ping between them is not answered. */
const DRAIN_PING_US = 2 * MICROS_PER_SECOND;
const KEEPALIVE_PING = Buffer.from("fastlane", "latin1");

export class AcceptedSocket {
  readonly socket: Socket;
  /** Undefined until the preface is complete. */
  connection: Connection | undefined;
  readonly #server: Http2Server;
  readonly #calls: UnaryCalls;
  readonly #refusal: string | undefined;
  // Bytes of the preface that have come, or -1 if something else has.
  #matched = 0;
  #watch: ConnectionWatch | undefined;
  readonly #sinceUs: number;

  constructor(server: Http2Server, calls: UnaryCalls, socket: Socket, refusal?: string) {
    this.#server = server;
    this.#calls = calls;
    this.socket = socket;
    this.#refusal = refusal;
    this.#sinceUs = server.nowUs();
    socket.on("data", this.#onPreface);
    socket.on("close", () => this.connection?.socketClosed());
  }

  readonly #onPreface = (chunk: Buffer): void => {
    if (this.#matched < 0) return;
    let at = 0;
    while (at < chunk.length && this.#matched < PREFACE.length && chunk[at] === PREFACE[this.#matched]) {
      at++;
      this.#matched++;
    }
    const isWhole = this.#matched === PREFACE.length;
    if (isWhole && !isForeignTls(this.socket)) {
      const connection = new Connection(this.#server, this.socket, this.#refusal);
      const intake = new FrameIntake(connection, this.#calls);
      this.connection = connection;
      this.#watch = new ConnectionWatch(connection, intake);
      this.socket.on("data", intake.onData);
      this.socket.off("data", this.#onPreface);
      intake.read(chunk, at);
    } else if (isWhole || at < chunk.length) this.#turnAway();
  };

  // An answer that a person with curl can read.
  #turnAway(): void {
    this.#matched = -1;
    this.#server.counts.troubles.bad_preface++;
    const text = `This port speaks gRPC over HTTP/2. ${this.#server.options.hint}\n`;
    const head = [
      "HTTP/1.1 400 Bad Request",
      "content-type: text/plain",
      `content-length: ${text.length}`,
      "connection: close",
    ];
    this.socket.end(`${head.join("\r\n")}\r\n\r\n${text}`);
  }

  /** Ends, pings or refuses what is overdue, `seconds` after the last look. */
  look(nowUs: number, seconds: number): void {
    if (this.#watch !== undefined) {
      this.#watch.look(nowUs, seconds);
    } else if (nowUs - this.#sinceUs > this.#server.bounds.handshakeMs * MICROS_PER_MILLI) {
      this.#server.counts.troubles.handshake_timeout++;
      this.socket.destroy();
    }
  }
}

// A client that offered only other protocols has failed the handshake; one that offered none gets here.
function isForeignTls(socket: Socket): boolean {
  return "alpnProtocol" in socket && socket.alpnProtocol !== "h2";
}

/** Finds what is overdue on a connection: frames, output, calls, pings, its age. */
class ConnectionWatch {
  readonly #connection: Connection;
  readonly #intake: FrameIntake;
  // The checks that last saw something read, something written, and another frame than before.
  #readUs: number;
  #writtenUs: number;
  #stuckFrameUs: number;
  #pieces = 0;
  readonly #expiresUs: number;

  constructor(connection: Connection, intake: FrameIntake) {
    this.#connection = connection;
    this.#intake = intake;
    const nowUs = connection.server.nowUs();
    this.#readUs = nowUs;
    this.#writtenUs = nowUs;
    this.#stuckFrameUs = nowUs;
    const jitter = 1 + (Math.random() * 2 - 1) * AGE_JITTER;
    this.#expiresUs = nowUs + connection.server.options.maxConnectionAgeMs * jitter * MICROS_PER_MILLI;
  }

  look(nowUs: number, seconds: number): void {
    const connection = this.#connection;
    connection.allowances.refill(seconds);
    if (!connection.isClosed) this.#lookForStandstill(nowUs);
    if (connection.isClosed) {
      if (nowUs - connection.closedUs > ENDING_US) connection.socket.destroy();
      return;
    }
    this.#lookAtStreams(nowUs);
    if (connection.isClosed) return;
    this.#lookAtKeepalive(nowUs);
    this.#lookAtAge(nowUs);
  }

  #lookForStandstill(nowUs: number): void {
    const connection = this.#connection;
    const intake = this.#intake;
    const { bounds } = connection.server;
    if (connection.hasWritten || connection.unreadBytes === 0) this.#writtenUs = nowUs;
    connection.hasWritten = false;
    // A busy connection is within a frame at every look, but not within the same frame.
    if (!intake.isWithinFrame || intake.pieces !== this.#pieces) this.#stuckFrameUs = nowUs;
    this.#pieces = intake.pieces;
    if (nowUs - this.#stuckFrameUs > bounds.headerBlockMs * MICROS_PER_MILLI) connection.cut("header_timeout");
    else if (nowUs - this.#writtenUs > bounds.stallMs * MICROS_PER_MILLI) connection.cut("stalled");
  }

  #lookAtStreams(nowUs: number): void {
    const { streams, server } = this.#connection;
    if (streams.size === 0) return;
    const stallUs = server.bounds.stallMs * MICROS_PER_MILLI;
    for (const stream of streams.all()) {
      // A peer that does not open a window for its answers would hold memory for nothing.
      if (stream.answers.length > 0 && stream.isStarvedAt(nowUs, stallUs)) this.#connection.cut("stalled");
      if (this.#connection.isClosed) return;
      stream.look(nowUs, stallUs);
    }
  }

  #lookAtKeepalive(nowUs: number): void {
    const connection = this.#connection;
    const { options, bounds } = connection.server;
    if (connection.hasRead) this.#readUs = nowUs;
    connection.hasRead = false;
    if (nowUs - connection.pingedUs > bounds.keepaliveTimeoutMs * MICROS_PER_MILLI) {
      connection.cut("keepalive_timeout");
    } else if (
      nowUs - this.#readUs > options.keepaliveMs * MICROS_PER_MILLI &&
      connection.pingedUs === Number.POSITIVE_INFINITY
    ) {
      connection.pingedUs = nowUs;
      connection.sender.ping(KEEPALIVE_PING, false);
      connection.flushSoon();
    }
  }

  #lookAtAge(nowUs: number): void {
    const connection = this.#connection;
    if (connection.state === "open") {
      if (nowUs >= this.#expiresUs) connection.drain(connection.server.options.maxConnectionAgeGraceMs);
      return;
    }
    const goneUs = nowUs - connection.noticedUs;
    if (goneUs > DRAIN_PING_US) connection.drained();
    if (goneUs >= connection.graceUs) connection.finish(ErrorCode.noError, "the grace of this connection has ended");
    else if (goneUs >= connection.graceUs / 2) for (const stream of connection.streams.all()) stream.giveUp();
  }
}
