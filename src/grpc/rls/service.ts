// The unary methods whose calls the limiter decides: CallService has a call decided and answers it, before `handle`
// returns whenever the limiter can decide at once. Its subclasses decode requests and encode answers: RateLimitService
// here, Reserve and Settle in budgets.ts.

import { RequestError } from "../../base/errors.ts";
import { WireWriter } from "../../base/wire.ts";
import type { LimitRequest } from "../../engine/domain/request.ts";
import { type CallFailure, type CallFinisher, LimitCall } from "../../engine/limiter/call.ts";
import type { Limiter } from "../../engine/limiter/limiter.ts";
import type { SpanIds } from "../trace-context.ts";
import { GrpcStatus, type UnaryHandler, type UnaryReply } from "../unary.ts";
import { decodeRequest, encodeDecision } from "./codec.ts";
import { addHeaders, type HeaderOptions } from "./headers.ts";
import { addMetadata, type MetadataMode } from "./metadata.ts";

/** Most calls kept for reuse; calls beyond are left to the garbage collector. */
const POOLED_CALLS_MAX = 4_096;

export interface CallServiceOptions {
  readonly limiter: Limiter;
  /** Called with errors that are bugs of this service; must not throw. */
  readonly onInternalError: (error: unknown) => void;
  /** Called with requests that could not be understood; must not throw. */
  readonly onRequestError: (error: RequestError) => void;
  /** Gets every decision; must not throw. Default: none. */
  readonly decisions?: DecisionListener | undefined;
  /** Makes a span for every call; must not throw. Default: no call has a span. */
  readonly tracer?: CallTracer | undefined;
}

/** Gets every decision, one by one. */
interface DecisionListener {
  /**
   * `traceparent` is the caller's header, if it sent one; `span` is the span of the call, if it is recorded. The call
   * is reused when this returns.
   */
  decided(call: LimitCall, traceparent: string | undefined, span: SpanIds | undefined): void;
}

/** Makes spans of calls. */
interface CallTracer {
  /** Begins a span. The call must be answered through the reply that this returns. */
  begin(reply: UnaryReply, deadlineUs: number): TracedReply;
}

/** The reply of a call with a span; it records the status of the answer. */
interface TracedReply extends UnaryReply {
  /** Ends the span; called after the answer. Returns the ids of the span; undefined if it is not recorded. */
  end(call: LimitCall): SpanIds | undefined;
}

/** A call with the reply that takes its answer. */
class ServedCall extends LimitCall {
  reply: UnaryReply | undefined;
  /** Equal to `reply` if the call has a span. */
  traced: TracedReply | undefined;
}

/** Decodes a call, has the limiter decide it, and answers it. */
export abstract class CallService implements UnaryHandler, CallFinisher {
  readonly #options: CallServiceOptions;
  readonly #pool: ServedCall[] = [];

  constructor(options: CallServiceOptions) {
    this.#options = options;
  }

  /** Resets `into` and fills it from the message. Throws RequestError for a message that can't be understood. */
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

  finish(call: LimitCall): void {
    const served = call as ServedCall;
    try {
      if (served.reply?.isGone && served.group.takesWithHolds > 0) this.#options.limiter.giveBackUnheard(served);
      this.#answer(served);
    } catch (error) {
      this.#fail(served, error);
    }
  }

  fail(call: LimitCall, error: unknown): void {
    this.#fail(call as ServedCall, error);
  }

  #answer(call: ServedCall): void {
    const reply = call.reply as UnaryReply;
    const { failure } = call;
    if (failure === undefined) this.answer(call, reply);
    else failWithCallFailure(reply, failure);
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

interface ServiceOptions extends CallServiceOptions {
  readonly headers: HeaderOptions;
  readonly metadata: MetadataMode;
  /** Whether answers tell windows that are no unit as so many seconds (`unit_multiplier`). Default: false. */
  readonly unitMultiplier?: boolean;
}

/** The handler of `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`. */
export class RateLimitService extends CallService {
  readonly #headers: HeaderOptions;
  readonly #metadata: MetadataMode;
  readonly #unitMultiplier: boolean;
  readonly #writer = new WireWriter();

  constructor(options: ServiceOptions) {
    super(options);
    this.#headers = options.headers;
    this.#metadata = options.metadata;
    this.#unitMultiplier = options.unitMultiplier === true;
  }

  protected read(message: Buffer, into: LimitRequest): void {
    decodeRequest(message, into);
    checkRequest(into);
  }

  protected answer(call: LimitCall, reply: UnaryReply): void {
    addHeaders(call, this.#headers);
    addMetadata(call, this.#metadata);
    reply.ok(encodeDecision(call.decision, this.#writer, this.#unitMultiplier));
  }
}

/**
 * Throws RequestError for a request without a domain or descriptors. A descriptor without entries is allowed: Envoy
 * sends such.
 */
export function checkRequest(request: LimitRequest): void {
  if (request.domain === "") {
    throw new RequestError("REQUEST_DOMAIN_EMPTY", "the request names no domain; expected the domain of a rule file");
  }
  if (request.descriptorCount === 0) {
    throw new RequestError("REQUEST_DESCRIPTORS_EMPTY", "the request has no descriptors; expected at least one");
  }
}

// Maps errors to gRPC statuses; no other file does. A call over its limit is no error but an answer.

/**
 * Ends a call whose request could not be decoded or decided. Any error but a RequestError becomes INTERNAL without
 * detail.
 */
export function failWithError(reply: UnaryReply, error: unknown): void {
  if (error instanceof RequestError) reply.fail(statusOf(error), `${error.code}: ${error.message}`);
  else reply.fail(GrpcStatus.internal, "SERVICE_INTERNAL: the request could not be decided; see the server's log");
}

// REQUEST_NOT_HELD: the request is well formed, and other rules would allow it.
function statusOf({ code }: RequestError): GrpcStatus {
  return code === "REQUEST_NOT_HELD" ? GrpcStatus.failedPrecondition : GrpcStatus.invalidArgument;
}

/** Ends a settlement that the store did not answer. The caller may settle again: it counts only once. */
export function failUnsettled(reply: UnaryReply, failure: string): void {
  reply.fail(
    GrpcStatus.unavailable,
    `SERVICE_STORE_FAILED: the store did not answer (${failure}); retry the settlement`,
  );
}

/** Ends a call that got no decision. UNAVAILABLE invites callers and proxies to send the call again. */
export function failWithCallFailure(reply: UnaryReply, failure: CallFailure): void {
  if (failure.kind === "no-rules")
    reply.fail(GrpcStatus.unavailable, "SERVICE_NO_RULES: no rule set has been loaded yet; see /readyz");
  else {
    const text = `SERVICE_STORE_FAILED: the store did not answer (${failure.error.code}) and the rule says on_store_failure: error`;
    if (!failure.mayCountTwice) reply.fail(GrpcStatus.unavailable, text);
    else
      reply.fail(
        GrpcStatus.unknown,
        `${text}; the report may have been counted, and sending it again may count it twice`,
      );
  }
}
