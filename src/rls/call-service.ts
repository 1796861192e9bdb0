// A unary method whose calls the limiter decides: bytes of a request in, bytes of an answer out. What the bytes mean is left to
// those that extend it. Answers before `handle` returns whenever the limiter can decide at once.

import { RequestError } from "../core/errors.ts";
import type { LimitRequest } from "../core/request.ts";
import type { SpanIds } from "../core/trace-context.ts";
import type { UnaryHandler, UnaryReply } from "../core/unary.ts";
import { type CallFinisher, LimitCall } from "../limiter/call.ts";
import type { Limiter } from "../limiter/limiter.ts";
import { failWithCallFailure, failWithError } from "./status.ts";

/** Calls kept for reuse; more are made as needed and left to the garbage collector. */
const POOLED_CALLS_MAX = 4_096;

export interface CallServiceOptions {
  readonly limiter: Limiter;
  /** Told of errors that are ours; must not throw. */
  readonly onInternalError: (error: unknown) => void;
  /** Told of requests that could not be understood; must not throw. */
  readonly onRequestError: (error: RequestError) => void;
  /** Hears of every decision; must not throw. Absent: nobody does. */
  readonly decisions?: DecisionListener | undefined;
  /** Makes a span of every call; must not throw. Absent: no call has one. */
  readonly tracer?: CallTracer | undefined;
}

/** Who wants to hear of decisions one by one. */
interface DecisionListener {
  /**
   * `traceparent` is the caller's, if it sent one; `span` that of the call, if it is recorded. The call is used again when
   * this returns.
   */
  decided(call: LimitCall, traceparent: string | undefined, span: SpanIds | undefined): void;
}

/** Who makes spans of calls. */
export interface CallTracer {
  /** Begins a span. The call is answered through what this returns. */
  begin(reply: UnaryReply, deadlineUs: number): TracedReply;
}

/** The reply of a call that has a span, which sees how the call is answered. */
export interface TracedReply extends UnaryReply {
  /** Ends the span, after the answer. Returns what it is found by, unless it is not recorded. */
  end(call: LimitCall): SpanIds | undefined;
}

/** A call and where its answer goes. */
class ServedCall extends LimitCall {
  reply: UnaryReply | undefined;
  /** The same, if the call has a span. */
  traced: TracedReply | undefined;
}

/** Decodes a call, has it decided, answers it. */
export abstract class CallService implements UnaryHandler, CallFinisher {
  readonly #options: CallServiceOptions;
  readonly #pool: ServedCall[] = [];

  constructor(options: CallServiceOptions) {
    this.#options = options;
  }

  /** Fills the request, which is reset. Throws RequestError for one that can't be understood. */
  protected abstract read(message: Buffer, into: LimitRequest): void;

  /** Answers a call that was decided. */
  protected abstract answer(call: LimitCall, reply: UnaryReply): void;

  handle(message: Buffer, deadlineUs: number, reply: UnaryReply): void {
    const call = this.#pool.pop() ?? new ServedCall(this);
    const { tracer } = this.#options;
    if (tracer === undefined) call.reply = reply;
    else call.reply = call.traced = tracer.begin(reply, deadlineUs);
    try {
      this.read(message, call.request);
      if (this.#options.limiter.decide(call, deadlineUs)) this.#answer(call);
    } catch (error) {
      this.#fail(call, error);
    }
  }

  /** The store has settled the call. */
  finish(call: LimitCall): void {
    const served = call as ServedCall;
    try {
      this.#options.limiter.conclude(served);
      if (served.group.takesWithHolds > 0 && served.reply?.isGone) this.#options.limiter.giveBackUnheard(served);
      this.#answer(served);
    } catch (error) {
      this.#fail(served, error);
    }
  }

  #answer(call: ServedCall): void {
    const reply = call.reply as UnaryReply;
    const { failure } = call;
    if (failure === undefined) this.answer(call, reply);
    else {
      if (failure.kind === "internal") this.#options.onInternalError(failure.error);
      failWithCallFailure(reply, failure);
    }
    const span = call.traced?.end(call);
    if (failure === undefined) this.#options.decisions?.decided(call, reply.traceparent, span);
    this.#release(call);
  }

  #fail(call: ServedCall, error: unknown): void {
    if (error instanceof RequestError) this.#options.onRequestError(error);
    else this.#options.onInternalError(error);
    failWithError(call.reply as UnaryReply, error);
    call.traced?.end(call);
    this.#release(call);
  }

  #release(call: ServedCall): void {
    call.reply = undefined;
    call.traced = undefined;
    call.reset();
    if (this.#pool.length < POOLED_CALLS_MAX) this.#pool.push(call);
  }
}
