// What every stream of a connection has, whoever answers it. What a stream may ask of its connection is in stream-owner.ts.

import type { ErrorCode } from "./protocol.ts";

/** One HTTP/2 stream that is open. */
export abstract class Stream {
  id = 0;
  /** Bytes of DATA that the peer lets us send; below 0 after it has shrunk its window. */
  sendWindow = 0;
  /** Bytes of DATA that the peer may still send. */
  receiveWindow = 0;
  /** Bytes of DATA that were taken and not given back to the window yet. */
  consumed = 0;
  /** Bytes of body that the peer announced, or -1, and that came. */
  contentLength = -1;
  received = 0;
  /** The peer has sent its END_STREAM. */
  isRemoteDone = false;

  /** Takes part of the body, valid until this returns. `isEnd`: it was the last. */
  abstract takeData(bytes: Buffer, start: number, end: number, isEnd: boolean): void;
  /** Sends what had to wait for a window, or for the socket. */
  abstract resume(): void;
  /** The stream is gone: the peer reset it, or the connection is. Nothing may be sent on it any more. */
  abstract abandon(code: ErrorCode): void;
  /** Ends the stream with UNAVAILABLE, because the connection is about to go; unary calls are left to finish. */
  abstract giveUp(): void;

  /** Answers a call that is due by `nowUs` while its handler owes the reply; returns when it will be due, or Infinity. */
  expire(_nowUs: number): number {
    return Number.POSITIVE_INFINITY;
  }

  /** Ends a stream whose request does not come whole in time; asked every second or so while the peer has not ended it. */
  lookAtRequest(_nowUs: number, _stallUs: number): void {
    // A request that is taken as it comes is never late.
  }

  /** Whether, of a look every second or so, none has seen what it has to send move for `stallUs`. */
  isStarvedAt(_nowUs: number, _stallUs: number): boolean {
    return false;
  }
}
