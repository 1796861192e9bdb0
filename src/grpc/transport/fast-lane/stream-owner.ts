// What a stream may ask of its connection. A unary call asks for more: CallOwner, in unary-stream.ts.

import type { ErrorCode } from "./protocol.ts";
import type { Sender } from "./sender.ts";
import type { Stream } from "./stream.ts";

/** The connection, as its streams see it. */
export interface StreamOwner {
  readonly sender: Sender;
  /** True when the connection has ended: nothing is sent on any stream. */
  readonly isClosed: boolean;
  /** True while the peer leaves so much output unread that streams should wait if they can. */
  readonly isFull: boolean;
  /** Returns `bytes`, which were consumed, to the stream's receive window. */
  credit(stream: Stream, bytes: number): void;
  /** Closes a stream whose answer has been sent; what the peer still sends on it is ignored. */
  end(stream: Stream): void;
  /** Ends a stream by RST_STREAM. */
  reset(stream: Stream, code: ErrorCode): void;
  /** Has output sent after the code that runs now. */
  flushSoon(): void;
}
