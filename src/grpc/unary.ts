// The contract between a transport and a service for one unary call: bytes in, bytes out.

/** The gRPC status codes in use, with the protocol's numbers. */
export const GrpcStatus = {
  ok: 0,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  resourceExhausted: 8,
  failedPrecondition: 9,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;
export type GrpcStatus = (typeof GrpcStatus)[keyof typeof GrpcStatus];

/** Receives the answer of one call: exactly one of `ok` and `fail` is called, once. */
export interface UnaryReply {
  /** The caller's `traceparent` header; undefined if there wasn't one. */
  readonly traceparent?: string | undefined;
  /** True once nobody waits for the answer any more: the caller has cancelled the call, or its deadline has passed. */
  readonly isGone?: boolean;
  /**
   * Set by a handler that asks others, and cleared before it replies: called once if `isGone` becomes true before.
   * grpc-js calls none.
   */
  onGone?: (() => void) | undefined;
  /** Sends the message with status OK. `message` may be overwritten after this returns: copy what is kept. */
  ok(message: Uint8Array): void;
  /** Ends the call with a status that is not OK. */
  fail(status: GrpcStatus, message: string): void;
}

/** Who asks over HTTP. */
export interface HttpCaller {
  /** The caller's `traceparent` header; undefined if there wasn't one. */
  readonly traceparent?: string | undefined;
  /** True once the connection is gone. */
  isGone(): boolean;
}

/** Handles the calls of one unary method. */
export interface UnaryHandler {
  /**
   * Answers one call through `reply`, before it returns or later. Never throws.
   * `message` is valid only until this returns. `deadlineUs` is in microseconds of the process's Clock, or Infinity.
   */
  handle(message: Buffer, deadlineUs: number, reply: UnaryReply): void;
}

/** A unary method whose handler works on bytes. */
export interface UnaryMethod {
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly handler: UnaryHandler;
}

/** Why a call gets UNIMPLEMENTED and no handler sees it. */
export const UNSERVED_REASONS = ["compressed", "rls_v2", "rls_lyft", "unknown_method"] as const;
export type UnservedReason = (typeof UNSERVED_REASONS)[number];

const OLD_PROTOCOLS: ReadonlyMap<string, UnservedReason> = new Map([
  ["/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit", "rls_v2"],
  ["/pb.lyft.ratelimit.RateLimitService/ShouldRateLimit", "rls_lyft"],
]);

/** Why a method that is not served may be asked for. */
export function whyUnknown(path: string): UnservedReason {
  return OLD_PROTOCOLS.get(path) ?? "unknown_method";
}

/** What the transport reports; must not throw. */
export interface TransportObserver {
  /** A handler threw or replied twice, or its reply could not be sent: an internal error. */
  handlerFailed(path: string, error: unknown): void;
  /** A call was refused because too many were in flight. */
  overloaded(path: string): void;
  /** A call got UNIMPLEMENTED. `path` is as sent. */
  unserved(reason: UnservedReason, path: string): void;
}
