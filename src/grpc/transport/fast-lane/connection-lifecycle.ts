// The life of a connection: keepalive, maximum age with its grace, drain by two GOAWAYs, and timeouts. It looks once a second; nothing
// here runs for a single call.

import type { Socket } from "node:net";
import { MICROS_PER_MILLI, MICROS_PER_SECOND } from "../../../engine/base/units.ts";
import type { Lane, LaneConnection } from "./lane.ts";
import { ErrorCode, STREAM_ID_LARGEST } from "./protocol.ts";
import type { StreamOwner } from "./stream-owner.ts";

/** Ages vary by up to a tenth, so that connections made together don't end together. */
const AGE_JITTER = 0.1;
/** Time for a peer to read the last answers, and to close after our GOAWAY. */
const ENDING_US = 5 * MICROS_PER_SECOND;
/** The second GOAWAY follows the first after this time, even if the ping between them is not answered. */
const DRAIN_PING_US = 2 * MICROS_PER_SECOND;

const KEEPALIVE_PING = Buffer.from("headgate", "latin1");
const DRAIN_PING = Buffer.from("draining", "latin1");

/**
 * How far a connection is on its way to its end. `noticed`: the first GOAWAY is sent; `drained`: the second, which names the last stream;
 * `ending`: no stream is open any more, and the socket is about to close.
 */
type State = "open" | "noticed" | "drained" | "ending";

/** The connection, as its lifecycle sees it. */
export interface LifecycleOwner extends StreamOwner, LaneConnection {
  readonly lane: Lane;
  readonly socket: Socket;
  /** True if a frame or a header block has begun and not ended. */
  readonly isWithinFrame: boolean;
  /** Grows with every complete frame and header block. */
  readonly piecesRead: number;
  /** Sends GOAWAY and ends the connection; no stream is answered any more. */
  finish(code: ErrorCode, debug: string): void;
  /** Ends a connection whose GOAWAY has been sent. */
  leave(): void;
}

export class ConnectionLifecycle {
  readonly #connection: LifecycleOwner;
  #state: State = "open";
  #lastStreamId = STREAM_ID_LARGEST;
  // Whether something was read or written since the last look, and the time of the look that saw it last.
  #hasRead = true;
  #hasWritten = true;
  #readUs: number;
  #writtenUs: number;
  #stuckFrameUs: number;
  #piecesRead = 0;
  #pingedUs = Number.POSITIVE_INFINITY;
  #noticedUs = Number.POSITIVE_INFINITY;
  #endingUs = Number.POSITIVE_INFINITY;
  #graceUs: number;
  readonly #expiresUs: number;

  constructor(connection: LifecycleOwner) {
    this.#connection = connection;
    const { lane } = connection;
    const nowUs = lane.nowUs();
    this.#readUs = nowUs;
    this.#writtenUs = nowUs;
    this.#stuckFrameUs = nowUs;
    const { maxConnectionAgeMs, maxConnectionAgeGraceMs } = lane.options;
    const jitter = 1 + (Math.random() * 2 - 1) * AGE_JITTER;
    this.#expiresUs = nowUs + maxConnectionAgeMs * jitter * MICROS_PER_MILLI;
    this.#graceUs = maxConnectionAgeGraceMs * MICROS_PER_MILLI;
  }

  noteRead(): void {
    this.#hasRead = true;
  }

  noteWritten(): void {
    this.#hasWritten = true;
  }

  /** True for a stream opened after the last one that our final GOAWAY allows. */
  isClosedTo(id: number): boolean {
    return id > this.#lastStreamId;
  }

  /**
   * Asks the peer to go. The first GOAWAY asks for no more streams. When everything that the peer sent before has been read, the second
   * names the last stream that is served. The connection ends with its last stream, or after `graceMs` milliseconds.
   */
  drain(graceMs: number): void {
    if (this.#connection.isClosed) return;
    if (this.#state !== "open") {
      // It drains already, because of its age; only the end may come sooner now.
      const goneUs = this.#connection.lane.nowUs() - this.#noticedUs;
      this.#graceUs = Math.min(this.#graceUs, goneUs + graceMs * MICROS_PER_MILLI);
      return;
    }
    this.#state = "noticed";
    this.#noticedUs = this.#connection.lane.nowUs();
    this.#graceUs = graceMs * MICROS_PER_MILLI;
    const { sender } = this.#connection;
    sender.goaway(STREAM_ID_LARGEST, ErrorCode.noError);
    sender.ping(DRAIN_PING, false);
    this.#connection.flushSoon();
  }

  takePong(payload: Buffer): void {
    this.#pingedUs = Number.POSITIVE_INFINITY;
    if (this.#state === "noticed" && payload.equals(DRAIN_PING)) this.#drained();
  }

  #drained(): void {
    this.#state = "drained";
    const { sender, streams } = this.#connection;
    this.#lastStreamId = streams.lastId;
    sender.goaway(streams.lastId, ErrorCode.noError);
    this.#connection.flushSoon();
    this.noteQuiet();
  }

  /** Notes that the last open stream has ended. */
  noteQuiet(): void {
    if (this.#state !== "drained" || this.#connection.streams.size > 0) return;
    // Not at once: the caller of this may still have to write the end of the stream.
    process.nextTick(() => {
      if (this.#connection.streams.size === 0) this.#connection.leave();
    });
  }

  /** Notes that the GOAWAY has been sent and the connection ends. */
  noteEnding(): void {
    this.#state = "ending";
    this.#endingUs = this.#connection.lane.nowUs();
  }

  /** Ends or pings the connection if something is overdue. */
  look(nowUs: number): void {
    if (this.#state === "ending") {
      if (nowUs - this.#endingUs > ENDING_US) this.#connection.socket.destroy();
      return;
    }
    this.#lookForStandstill(nowUs);
    if (this.#connection.isClosed) return;
    this.#lookAtRequests(nowUs);
    this.#lookAtKeepalive(nowUs);
    this.#lookAtAge(nowUs);
  }

  #lookForStandstill(nowUs: number): void {
    const connection = this.#connection;
    const { bounds } = connection.lane;
    if (this.#hasWritten || connection.unreadBytes === 0) this.#writtenUs = nowUs;
    this.#hasWritten = false;
    // A busy connection is within a frame at every look, but not within the same frame.
    if (!connection.isWithinFrame || connection.piecesRead !== this.#piecesRead) this.#stuckFrameUs = nowUs;
    this.#piecesRead = connection.piecesRead;
    if (nowUs - this.#stuckFrameUs > bounds.headerBlockMs * MICROS_PER_MILLI) connection.cut("header_timeout");
    else if (nowUs - this.#writtenUs > bounds.stallMs * MICROS_PER_MILLI) connection.cut("stalled");
    else if (this.#isStarved(nowUs)) connection.cut("stalled");
  }

  // A peer that does not open a window for its answers would hold memory for nothing.
  #isStarved(nowUs: number): boolean {
    const stallUs = this.#connection.lane.bounds.stallMs * MICROS_PER_MILLI;
    for (const stream of this.#connection.sender.blocked) {
      if (stream.isStarvedAt(nowUs, stallUs)) return true;
    }
    return false;
  }

  // A call whose message never completes reaches no handler, so its deadline is kept here.
  #lookAtRequests(nowUs: number): void {
    const { streams, lane } = this.#connection;
    if (streams.size === 0) return;
    for (const stream of streams.all()) {
      if (!stream.isRemoteDone) stream.lookAtRequest(nowUs, lane.bounds.stallMs * MICROS_PER_MILLI);
    }
  }

  #lookAtKeepalive(nowUs: number): void {
    const connection = this.#connection;
    const keepaliveUs = connection.lane.options.keepaliveMs * MICROS_PER_MILLI;
    if (this.#hasRead) this.#readUs = nowUs;
    this.#hasRead = false;
    if (nowUs - this.#pingedUs > connection.lane.bounds.keepaliveTimeoutMs * MICROS_PER_MILLI) {
      connection.cut("keepalive_timeout");
    } else if (nowUs - this.#readUs > keepaliveUs && this.#pingedUs === Number.POSITIVE_INFINITY) {
      this.#pingedUs = nowUs;
      connection.sender.ping(KEEPALIVE_PING, false);
      connection.flushSoon();
    }
  }

  #lookAtAge(nowUs: number): void {
    const connection = this.#connection;
    if (this.#state === "open") {
      if (nowUs >= this.#expiresUs) this.drain(connection.lane.options.maxConnectionAgeGraceMs);
      return;
    }
    if (this.#state === "noticed" && nowUs - this.#noticedUs > DRAIN_PING_US) this.#drained();
    const goneUs = nowUs - this.#noticedUs;
    if (goneUs >= this.#graceUs) connection.finish(ErrorCode.noError, "the grace of this connection has ended");
    else if (goneUs >= this.#graceUs / 2) for (const stream of connection.streams.all()) stream.giveUp();
  }
}
