// Carries a unary call between grpc-js and a UnaryHandler: bytes, deadline, the bound on calls in flight, and at most one reply. It
// decodes no messages.

import type { handleUnaryCall, MethodDefinition, sendUnaryData } from "@grpc/grpc-js";
import { type Clock, deadlineOn } from "../../engine/base/clock.ts";
import { InvariantError } from "../../engine/base/invariant.ts";
import { GrpcStatus, type TransportObserver, type UnaryMethod, type UnaryReply } from "../unary.ts";

/** What all calls of a server share. */
export interface CallContext {
  readonly options: { readonly clock: Clock; readonly observer: TransportObserver; readonly inFlightMax: number };
  /** Calls that their handler has not answered yet. Cancelled ones count, because they still take work. */
  inFlight: number;
}

/** The method as grpc-js registers it: messages stay bytes. */
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
 * The implementation that grpc-js calls for `method`. A call whose deadline has passed, or beyond the bound on calls in flight, is
 * answered without its handler. If a handler throws, only its own caller gets INTERNAL. A handler is called at the end of the turn in
 * which its call was read: after a pause of this process, calls and their cancellations are read together, and a cancelled call must
 * not be paid (test/envoy/failures.test.ts).
 */
export function unaryImplementation(method: UnaryMethod, context: CallContext): handleUnaryCall<Buffer, Buffer> {
  const { path } = method;
  const { clock, observer, inFlightMax } = context.options;
  return (call, respond) => {
    if (context.inFlight >= inFlightMax) {
      observer.overloaded(path);
      respond(statusError(GrpcStatus.resourceExhausted, `more than ${inFlightMax} calls in flight`));
      return;
    }
    context.inFlight++;
    const reply = new GrpcReply(path, call, respond, context);
    const deadlineUs = deadlineOn(clock, Number(call.getDeadline()));
    setImmediate(() => {
      if (call.cancelled) {
        reply.forget();
        return;
      }
      if (deadlineUs <= clock.nowUs()) {
        reply.fail(GrpcStatus.deadlineExceeded, "the deadline passed before the call was read");
        return;
      }
      try {
        method.handler.handle(call.request, deadlineUs, reply);
      } catch (error) {
        observer.handlerFailed(path, error);
        reply.failUnlessDone(GrpcStatus.internal, "internal error");
      }
    });
  };
}

/** The part of grpc-js's call that a reply reads. */
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
    // Copied, because the handler uses its buffer again, and grpc-js does not say when it has read the message.
    if (this.#isFirst()) this.#send(null, Buffer.from(message));
  }

  fail(status: GrpcStatus, message: string): void {
    if (this.#isFirst()) this.#send(statusError(status, message), null);
  }

  /** Fails the call unless it has been answered. */
  failUnlessDone(status: GrpcStatus, message: string): void {
    if (!this.#isDone) this.fail(status, message);
  }

  /** Ends a call whose caller has gone, without an answer. */
  forget(): void {
    this.#isFirst();
  }

  #isFirst(): boolean {
    if (this.#isDone) {
      this.#context.options.observer.handlerFailed(this.#path, new InvariantError("a call is replied to once"));
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
      this.#context.options.observer.handlerFailed(this.#path, fault);
    }
  }
}

interface StatusError {
  readonly code: GrpcStatus;
  readonly details: string;
}

const MESSAGE_CHARS_MAX = 1_024;

// grpc-js percent-encodes the message, and throws on an unpaired surrogate.
function statusError(code: GrpcStatus, message: string): StatusError {
  return { code, details: message.slice(0, MESSAGE_CHARS_MAX).replace(/\p{Surrogate}/gu, "\ufffd") };
}
