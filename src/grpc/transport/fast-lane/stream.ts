// What every stream of a connection has, whoever answers it. stream-owner.ts has what it may ask of its connection.

import type { ErrorCode } from "./protocol.ts";

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
  /** The look that first saw it wait for its peer, in microseconds; 0 before, and after progress. A look comes about once a second. */
  starvedUs = 0;

  /** True if only the peer can end it: the request is not whole, or the answer waits for a window. */
  abstract get waitsForPeer(): boolean;
  /** Takes part of the body, from `start` to `end` (exclusive), valid until this returns. `isEnd`: it was the last part. */
  abstract takeData(bytes: Buffer, start: number, end: number, isEnd: boolean): void;
  /** Sends what had to wait for a window, or for the socket. */
  abstract resume(): void;
  /** The stream has ended: the peer reset it, or its connection has ended. Nothing may be sent on it. */
  abstract abandon(code: ErrorCode): void;
  /** Ends the stream with UNAVAILABLE, because its connection is about to end; a unary call continues. */
  abstract giveUp(): void;

  /** Answers a call whose deadline has passed while its handler works. Returns the next deadline, or Infinity. */
  expire(_nowUs: number): number {
    return Number.POSITIVE_INFINITY;
  }

  /** Ends a stream whose request takes too long to arrive; called about once a second until the peer has ended its side. */
  lookAtRequest(_nowUs: number, _stallUs: number): void {
    // A request whose end nobody needs is never late.
  }

  /** Whether it has waited for its peer for `stallUs`; called about once a second while it does. */
  isStarvedAt(nowUs: number, stallUs: number): boolean {
    if (this.starvedUs === 0) this.starvedUs = nowUs;
    return nowUs - this.starvedUs > stallUs;
  }
}
