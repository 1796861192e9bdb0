// What is served: methods and their handlers, all on bytes. A unary method has a way of its own, which makes no object
// per call. All others take messages one by one and answer any number of times.

/** The status codes of gRPC. */
export const GrpcStatus = {
  ok: 0,
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
  outOfRange: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  dataLoss: 15,
  unauthenticated: 16,
} as const;
export type GrpcStatus = (typeof GrpcStatus)[keyof typeof GrpcStatus];

/** How a call ends. */
export interface CallStatus {
  readonly code: GrpcStatus;
  readonly details: string;
}

/** One request, one answer. */
export interface UnaryMethod {
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly handler: UnaryHandler;
}

export interface UnaryHandler {
  /**
   * Answers one call through `reply`, before it returns or later. `message` is valid only until this returns.
   * `deadlineUs` is in microseconds of the server's clock, or Infinity. If this throws, the caller gets INTERNAL.
   */
  handle(message: Buffer, deadlineUs: number, reply: UnaryReply): void;
}

/** Receives the answer of one call: exactly one of `ok` and `fail` is called, once. */
export interface UnaryReply {
  /** The caller's `traceparent` header; undefined if there wasn't one. */
  readonly traceparent?: string | undefined;
  /** True once nobody waits for the answer any more: the caller has cancelled the call, or its deadline has passed. */
  readonly isGone?: boolean;
  /** Called once if `isGone` becomes true before the reply. */
  onGone?: (() => void) | undefined;
  /** Sends the message with status OK. `message` may be overwritten after this returns. */
  ok(message: Uint8Array): void;
  /** Ends the call with a status that is not OK. */
  fail(status: GrpcStatus, message: string): void;
}

/** Any number of answers to one request, or to a stream of them. */
export interface StreamMethod {
  readonly path: string;
  /** True if the caller sends a stream of requests, false if it sends one. */
  readonly takesMany: boolean;
  /**
   * Takes the request; or each of a stream and then, when the caller has sent all, undefined. It is given the next one
   * when its answers so far have gone out. If it throws, the caller gets INTERNAL.
   */
  readonly handle: (request: Buffer | undefined, call: StreamCall) => void;
}

/** A call of such a method, as its handler sees it. */
export interface StreamCall {
  /** Answers that wait for the caller to read. */
  readonly unread: number;
  /**
   * Sends one more message, or keeps a copy until the caller reads it. A caller that lets too much wait loses the call.
   */
  answer(message: Uint8Array): void;
  /** Ends the call after its answers, with OK unless another status is given. */
  end(status?: CallStatus): void;
  /**
   * Calls `listener` whenever the last answer that waited has gone out: for handlers that send more than a caller may
   * read.
   */
  onRead(listener: () => void): void;
  /** Calls `listener` when the call is over: ended, cancelled, past its deadline, or its connection gone. */
  onOver(listener: () => void): void;
}

/** What a server reports. Must not throw. */
export interface Observer {
  /** A handler threw or replied twice, or its reply could not be sent. */
  handlerFailed(path: string, error: unknown): void;
  /** A call was refused because too many were in flight. */
  overloaded(path: string): void;
  /** A call got UNIMPLEMENTED. `path` is as sent. */
  unserved(reason: "compressed" | "unknown_method", path: string): void;
}
