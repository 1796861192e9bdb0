// The life of a connection: keepalive, age with its grace, drain by two GOAWAYs, and the times within which something
// has to move. One look per second; nothing here runs on the way of a call.

import type { Socket } from "node:net";
import { MICROS_PER_MILLI, MICROS_PER_SECOND } from "../../core/units.ts";
import type { Lane, LaneConnection } from "./lane.ts";
import { ErrorCode, STREAM_ID_LARGEST } from "./protocol.ts";
import type { StreamOwner } from "./stream-owner.ts";

/** Ages differ by up to a tenth, so that connections made together don't go together. */
const AGE_JITTER = 0.1;
/** How long a peer may take to read the last answers and close after our GOAWAY. */
const ENDING_US = 5 * MICROS_PER_SECOND;
/** The second GOAWAY follows the first after this time even if the ping between them is not answered. */
const DRAIN_PING_US = 2 * MICROS_PER_SECOND;

const KEEPALIVE_PING = Buffer.from("headgate", "latin1");
const DRAIN_PING = Buffer.from("draining", "latin1");

/** How far a connection is on its way out. */
const Phase = { open: 0, noticed: 1, drained: 2, ending: 3 } as const;
type Phase = (typeof Phase)[keyof typeof Phase];

/** The connection, as what watches over it sees it. */
export interface LifecycleOwner extends StreamOwner, LaneConnection {
  readonly lane: Lane;
  readonly socket: Socket;
  /** True if a frame or a header block has begun and not ended. */
  readonly isWithinFrame: boolean;
  /** Moves with every frame, and every header block, that has come whole. */
  readonly piecesRead: number;
  /** Sends GOAWAY and ends the connection: no stream is answered any more. */
  finish(code: ErrorCode, debug: string): void;
  /** Ends a connection whose GOAWAY was sent. */
  leave(): void;
}

export class ConnectionLifecycle {
  readonly #connection: LifecycleOwner;
  #phase: Phase = Phase.open;
  #lastStreamId = STREAM_ID_LARGEST;
  // Whether something was read or written since the last look, and when that was seen.
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

  /** True if a stream of this number comes after our last word. */
  isClosedTo(id: number): boolean {
    return id > this.#lastStreamId;
  }

  /**
   * Asks the peer to go: first says that no more streams should come, then, when all that it had sent by then has been
   * read, which was the last. Ends the connection when the last stream has.
   */
  drain(graceMs: number): void {
    if (this.#connection.isClosed) return;
    if (this.#phase !== Phase.open) {
      // On its way already, because of its age: the end may have come nearer.
      const goneUs = this.#connection.lane.nowUs() - this.#noticedUs;
      this.#graceUs = Math.min(this.#graceUs, goneUs + graceMs * MICROS_PER_MILLI);
      return;
    }
    this.#phase = Phase.noticed;
    this.#noticedUs = this.#connection.lane.nowUs();
    this.#graceUs = graceMs * MICROS_PER_MILLI;
    const { sender } = this.#connection;
    sender.goaway(STREAM_ID_LARGEST, ErrorCode.noError);
    sender.ping(DRAIN_PING, false);
    this.#connection.flushSoon();
  }

  takePong(payload: Buffer): void {
    this.#pingedUs = Number.POSITIVE_INFINITY;
    if (this.#phase === Phase.noticed && payload.equals(DRAIN_PING)) this.#drained();
  }

  #drained(): void {
    this.#phase = Phase.drained;
    const { sender, streams } = this.#connection;
    this.#lastStreamId = streams.lastId;
    sender.goaway(streams.lastId, ErrorCode.noError);
    this.#connection.flushSoon();
    this.noteQuiet();
  }

  /** The last open stream has ended. */
  noteQuiet(): void {
    if (this.#phase !== Phase.drained || this.#connection.streams.size > 0) return;
    // Not at once: the caller may be about to write what the stream ended with.
    process.nextTick(() => {
      if (this.#connection.streams.size === 0) this.#connection.leave();
    });
  }

  /** Our GOAWAY was sent. */
  noteEnding(): void {
    this.#phase = Phase.ending;
    this.#endingUs = this.#connection.lane.nowUs();
  }

  /** Looks whether anything is overdue. */
  look(nowUs: number): void {
    if (this.#phase === Phase.ending) {
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
    // A busy connection is within a frame at every look, but not within the same.
    if (!connection.isWithinFrame || connection.piecesRead !== this.#piecesRead) this.#stuckFrameUs = nowUs;
    this.#piecesRead = connection.piecesRead;
    if (nowUs - this.#stuckFrameUs > bounds.headerBlockMs * MICROS_PER_MILLI) connection.cut("header_timeout");
    else if (nowUs - this.#writtenUs > bounds.stallMs * MICROS_PER_MILLI) connection.cut("stalled");
    else if (this.#isStarved(nowUs)) connection.cut("stalled");
  }

  // Answers that wait for a window: a peer that asks and then does not let us answer holds memory for nothing.
  #isStarved(nowUs: number): boolean {
    const stallUs = this.#connection.lane.bounds.stallMs * MICROS_PER_MILLI;
    for (const stream of this.#connection.sender.blocked) {
      if (stream.isStarvedAt(nowUs, stallUs)) return true;
    }
    return false;
  }

  // Calls whose message does not come whole reach no handler, so nobody else keeps their deadline.
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
    if (this.#phase === Phase.open) {
      if (nowUs >= this.#expiresUs) this.drain(connection.lane.options.maxConnectionAgeGraceMs);
      return;
    }
    if (this.#phase === Phase.noticed && nowUs - this.#noticedUs > DRAIN_PING_US) this.#drained();
    const goneUs = nowUs - this.#noticedUs;
    if (goneUs >= this.#graceUs) connection.finish(ErrorCode.noError, "the grace of this connection has ended");
    else if (goneUs >= this.#graceUs / 2) for (const stream of connection.streams.all()) stream.giveUp();
  }
}
