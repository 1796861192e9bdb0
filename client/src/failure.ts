// A check that got no usable answer. What the caller makes of it is left to the policy.

/** What a check that failed becomes: a decision that allows, one that denies, or an exception. */
export type OnFailure = "allow" | "deny" | "throw";

/** No usable answer came: no server in reach, too late, an error of the service, or a request that can't be sent. */
export class CheckFailure extends Error {
  override readonly name = "CheckFailure";
  /** Name of a gRPC status: DEADLINE_EXCEEDED, UNAVAILABLE, RESOURCE_EXHAUSTED, INVALID_ARGUMENT, CANCELLED ... */
  readonly code: string;
  /** The server that was asked; absent if none was. */
  readonly server: string | undefined;

  constructor(code: string, message: string, options: { server?: string | undefined; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.server = options.server;
  }
}
