// Carries one unary call between grpc-js and a UnaryHandler: bytes through, deadline, bound on calls in flight, and
// one reply at most. Knows no messages.

import type { handleUnaryCall, MethodDefinition, sendUnaryData } from "@grpc/grpc-js";
import { type Clock, deadlineOn } from "../core/clock.ts";
import { InvariantError } from "../core/invariant.ts";
import { GrpcStatus, type UnaryHandler, type UnaryReply } from "../core/unary.ts";

/** A unary method that is answered on bytes. */
export interface UnaryMethod {
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly handler: UnaryHandler;
}

/** What the transport reports; must not throw. */
export interface TransportObserver {
  /** A handler threw, replied twice, or its reply could not be sent: a fault of ours. */
  handlerFailed(path: string, error: unknown): void;
  /** A call was turned away because too many were in flight. */
  overloaded(path: string): void;
}

/** What all calls of a server share. */
export class CallContext {
  readonly clock: Clock;
  readonly observer: TransportObserver;
  readonly inFlightMax: number;
  /** Calls that a handler has not answered yet, cancelled ones included: they still are work. */
  inFlight = 0;

  constructor(options: { clock: Clock; observer: TransportObserver; inFlightMax: number }) {
    this.clock = options.clock;
    this.observer = options.observer;
    this.inFlightMax = options.inFlightMax;
  }
}

/** The method as grpc-js registers it: messages stay the bytes they are. */
export function passThroughDefinition(path: string): MethodDefinition<Buffer, Buffer> {
  const same = (bytes: Buffer): Buffer => bytes;
  return {
    path,
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  };
}

/**
 * The implementation that grpc-js calls for `method`. A call whose deadline has passed, or that is one too many, is
 * answered and never reaches the handler; a handler that throws costs its caller INTERNAL and nobody else anything.
 * A call reaches the handler at the end of the turn in which it was read: after a pause of this process, calls that their
 * callers have given up are read together with the cancellations, and must not be paid (test/envoy/failures.test.ts).
 */
export function unaryImplementation(method: UnaryMethod, context: CallContext): handleUnaryCall<Buffer, Buffer> {
  const { path } = method;
  return (call, respond) => {
    if (context.inFlight >= context.inFlightMax) {
      context.observer.overloaded(path);
      respond(statusError(GrpcStatus.resourceExhausted, `more than ${context.inFlightMax} calls in flight`));
      return;
    }
    context.inFlight++;
    const reply = new GrpcReply(path, call, respond, context);
    const deadlineUs = deadlineOn(context.clock, Number(call.getDeadline()));
    setImmediate(() => {
      if (call.cancelled) reply.forget();
      else if (deadlineUs <= context.clock.nowUs()) {
        reply.fail(GrpcStatus.deadlineExceeded, "the deadline passed before the call was read");
      } else hand(call.request, { method, deadlineUs, reply, context });
    });
  };
}

function hand(
  message: Buffer,
  to: { method: UnaryMethod; deadlineUs: number; reply: GrpcReply; context: CallContext },
): void {
  const { method, deadlineUs, reply, context } = to;
  try {
    method.handler.handle(message, deadlineUs, reply);
  } catch (error) {
    context.observer.handlerFailed(method.path, error);
    reply.failUnlessDone(GrpcStatus.internal, "internal error");
  }
}

/** What of grpc-js's call a reply looks at. */
interface ReplyCall {
  readonly cancelled: boolean;
  readonly metadata: { get(name: string): readonly (string | Buffer)[] };
}

class GrpcReply implements UnaryReply {
  readonly #path: string;
  readonly #call: ReplyCall;
  readonly #respond: sendUnaryData<Buffer>;
  readonly #context: CallContext;
  #isDone = false;

  constructor(path: string, call: ReplyCall, respond: sendUnaryData<Buffer>, context: CallContext) {
    this.#path = path;
    this.#call = call;
    this.#respond = respond;
    this.#context = context;
  }

  get traceparent(): string | undefined {
    return this.#call.metadata.get("traceparent")[0]?.toString();
  }

  get isGone(): boolean {
    return this.#call.cancelled;
  }

  ok(message: Uint8Array): void {
    // The copy outlives the handler's buffer: when grpc-js reads it is not part of its contract.
    if (this.#isFirst()) this.#send(null, Buffer.from(message));
  }

  fail(status: GrpcStatus, message: string): void {
    if (this.#isFirst()) this.#send(statusError(status, message), null);
  }

  /** Fails the call unless it was answered before. */
  failUnlessDone(status: GrpcStatus, message: string): void {
    if (!this.#isDone) this.fail(status, message);
  }

  /** Ends a call that nobody waits for. */
  forget(): void {
    this.#isFirst();
  }

  #isFirst(): boolean {
    if (this.#isDone) {
      this.#context.observer.handlerFailed(this.#path, new InvariantError("a call is replied to once"));
      return false;
    }
    this.#isDone = true;
    this.#context.inFlight--;
    return true;
  }

  #send(error: StatusError | null, message: Buffer | null): void {
    if (this.#call.cancelled) return;
    try {
      this.#respond(error, message);
    } catch (fault) {
      this.#context.observer.handlerFailed(this.#path, fault);
    }
  }
}

interface StatusError {
  readonly code: GrpcStatus;
  readonly details: string;
}

const MESSAGE_CHARS_MAX = 1_024;

// grpc-js percent-encodes the message, and throws on half a surrogate pair.
function statusError(code: GrpcStatus, message: string): StatusError {
  return { code, details: message.slice(0, MESSAGE_CHARS_MAX).replace(/\p{Surrogate}/gu, "\ufffd") };
}
