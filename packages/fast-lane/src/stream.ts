// The parts that all kinds of streams share: windows, answers that wait, the end. And the table of a connection's
// streams.

import type { CallStatus } from "./methods.ts";
import { protocolError } from "./protocol.ts";

/** How the answer of a stream ends: by trailers with a status, or with its last byte if it is not gRPC. */
export type Ending = CallStatus | "body";

/** An open HTTP/2 stream. */
export abstract class Stream {
  id = 0;
  /** Bytes of DATA that the peer allows; below 0 after it has shrunk its window. */
  sendWindow = 0;
  /** Bytes of DATA that the peer may still send. */
  receiveWindow = 0;
  /** Bytes of DATA that were consumed and not returned to the window yet. */
  consumed = 0;
  /** Bytes of body that the peer announced, or -1; and bytes that have arrived. */
  contentLength = -1;
  received = 0;
  /** The peer has sent END_STREAM. */
  isRemoteDone = false;
  /**
   * The check that first saw it wait for its peer, in microseconds; 0 before, and after progress. Checks run about once
   * a second.
   */
  starvedUs = 0;
  /** Whether the headers of the answer were sent. */
  hasHead = false;
  /** Answers that wait for the peer, oldest first, and how much of the first was sent. */
  readonly answers: Buffer[] = [];
  sent = 0;
  /** What ends the stream after them; undefined if more may come. */
  ending: Ending | undefined;

  /** True if only the peer can end it: the request is not whole, or the answer waits for a window. */
  abstract get waitsForPeer(): boolean;
  /**
   * Takes part of the body, from `start` to `end` (exclusive), valid until this returns. `isEnd`: it was the last part.
   */
  abstract takeData(bytes: Buffer, start: number, end: number, isEnd: boolean): void;
  /** The stream has ended. Nothing may be sent on it. Called once. */
  abstract closed(): void;

  /** As much was sent as the peer allows, and the stream stays open. */
  afterSending(): void {
    // Most streams need nothing then.
  }

  /** Ends the stream with UNAVAILABLE, because its connection is about to end. */
  giveUp(): void {
    // A unary call finishes, or is cut off with the connection.
  }

  /** Ends what takes too long. Called about once a second. */
  look(_nowUs: number, _stallUs: number): void {
    // A request that only gets a refusal is never late.
  }

  /** Keeps an answer until the peer allows it. */
  keepAnswer(answer: Buffer): void {
    if (this.answers.length === 0) this.starvedUs = 0;
    this.answers.push(answer);
  }

  /** Whether it has waited for its peer for `stallUs`; called about once a second while it does. */
  isStarvedAt(nowUs: number, stallUs: number): boolean {
    if (this.starvedUs === 0) this.starvedUs = nowUs;
    return nowUs - this.starvedUs > stallUs;
  }
}

/** Streams reset by us that are remembered, because frames for them may still be under way. A power of two. */
const RECENT_RESETS = 64;

/**
 * The open streams of a connection. A unary call mostly opens and ends within one read, with no other stream's frames
 * between: the newest stream is kept apart, so that such calls never enter the map.
 */
export class StreamTable {
  readonly #older = new Map<number, Stream>();
  #newest: Stream | undefined;
  readonly #recentResets = new Int32Array(RECENT_RESETS);
  #resets = 0;
  /** The highest stream number that the peer has used. */
  lastId = 0;

  get size(): number {
    return this.#older.size + (this.#newest === undefined ? 0 : 1);
  }

  get(id: number): Stream | undefined {
    const newest = this.#newest;
    return newest !== undefined && newest.id === id ? newest : this.#older.get(id);
  }

  add(stream: Stream): void {
    const newest = this.#newest;
    if (newest !== undefined) this.#older.set(newest.id, newest);
    this.#newest = stream;
  }

  remove(stream: Stream): void {
    if (this.#newest === stream) this.#newest = undefined;
    else this.#older.delete(stream.id);
  }

  /**
   * Throws for a frame on a stream that was never opened. One for a stream that is gone may have been under way when we
   * closed it.
   */
  requireOpened(id: number): void {
    if (id > this.lastId || id % 2 === 0) throw protocolError("a frame on a stream that was never opened");
  }

  /** All streams at the moment of the call. */
  all(): Stream[] {
    const all = [...this.#older.values()];
    if (this.#newest !== undefined) all.push(this.#newest);
    return all;
  }

  /** Notes that we have reset a stream, or never accepted it. */
  noteReset(id: number): void {
    this.#recentResets[this.#resets++ & (RECENT_RESETS - 1)] = id;
  }

  wasReset(id: number): boolean {
    return this.#recentResets.includes(id);
  }
}
