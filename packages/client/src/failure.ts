// A check without a usable answer. The policy decides what the caller gets.

/** What a failed check becomes: a decision that allows, a decision that denies, or an exception. */
export type OnFailure = "allow" | "deny" | "throw";

/**
 * There was no usable answer: no server in reach (`cause` says why), the deadline passed, the service failed, or the
 * limiter is closed.
 */
export class CheckFailure extends Error {
  override readonly name = "CheckFailure";
  /**
   * Name of a gRPC status, such as DEADLINE_EXCEEDED, UNAVAILABLE, RESOURCE_EXHAUSTED, INVALID_ARGUMENT or CANCELLED.
   */
  readonly code: string;
  /** The address of the server that was asked; undefined if none was. */
  readonly server: string | undefined;

  constructor(code: string, message: string, options: { server?: string | undefined; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.server = options.server;
  }
}
