// What every stream of a connection has, whoever answers it: windows, answers that wait, and how it ends.

import type { GrpcStatus } from "../../unary.ts";

/** How the answer of a stream ends: by trailers with a status, or with its last byte if it is not gRPC. */
export type Ending = { readonly code: GrpcStatus; readonly details: string } | "body";

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
  /** Whether the headers of the answer were sent. */
  hasHead = false;
  /** Answers that wait for the peer, oldest first, and how much of the first was sent. */
  readonly answers: Buffer[] = [];
  sent = 0;
  /** What ends the stream after them; undefined if more may come. */
  ending: Ending | undefined;

  /** True if only the peer can end it: the request is not whole, or the answer waits for a window. */
  abstract get waitsForPeer(): boolean;
  /** Takes part of the body, from `start` to `end` (exclusive), valid until this returns. `isEnd`: it was the last part. */
  abstract takeData(bytes: Buffer, start: number, end: number, isEnd: boolean): void;
  /** The stream has ended, in whatever way. Nothing may be sent on it. Called once. */
  abstract closed(): void;

  /** As much was sent as the peer allows, and the stream stays open. */
  afterSending(): void {
    // Mostly nothing depends on it.
  }

  /** Ends the stream with UNAVAILABLE, because its connection is about to end. */
  giveUp(): void {
    // A unary call finishes, or is cut off with the connection.
  }

  /** Ends what takes too long. Called about once a second. */
  look(_nowUs: number, _stallUs: number): void {
    // A request whose end nobody needs is never late.
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
