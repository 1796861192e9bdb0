// The contract between a transport and a service for one call of streams both ways: messages are bytes. The fast lane
// has the same (packages/fast-lane/src/methods.ts).

import type { GrpcStatus } from "./unary.ts";

/** A method whose callers send any number of messages and get any number. */
export interface StreamMethod {
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly takesMany: true;
  /**
   * Takes each message and then, when the caller has sent all, undefined. A message is valid until this returns. It is
   * given the next one when its answers so far have gone out. If it throws, the caller gets INTERNAL.
   */
  handle(message: Buffer | undefined, call: StreamCall): void;
}

/** A call of such a method. */
export interface StreamCall {
  /** Answers that wait for the caller to read. */
  readonly unread: number;
  /** Sends one more message. It may be overwritten after this returns. */
  answer(message: Uint8Array): void;
  /** Ends the call after its answers, with OK unless another status is given. */
  end(status?: { readonly code: GrpcStatus; readonly details: string }): void;
  /** Calls `listener` whenever the last answer that waited has gone out. */
  onRead(listener: () => void): void;
  /** Calls `listener` when the call is over, for whatever reason. */
  onOver(listener: () => void): void;
}
