// What a stream may ask of the connection that it is open on. A unary call asks for other things: CallOwner, in unary-stream.ts.

import type { ErrorCode } from "./protocol.ts";
import type { Sender } from "./sender.ts";
import type { Stream } from "./stream.ts";

/** The connection, as its streams see it. */
export interface StreamOwner {
  readonly sender: Sender;
  /** The connection is over: it says nothing more on any stream. */
  readonly isClosed: boolean;
  /** True while the peer leaves so much unread that streams which can wait should. */
  readonly isFull: boolean;
  /** Gives a stream's window back what was consumed. */
  credit(stream: Stream, bytes: number): void;
  /** Closes a stream on which our side has said all; what the peer still sends on it is passed over. */
  end(stream: Stream): void;
  /** Ends a stream by RST_STREAM. */
  reset(stream: Stream, code: ErrorCode): void;
  /** Has output go out at the end of what runs now. */
  flushSoon(): void;
}
