// ShouldRateLimit: bytes of a request in, bytes of an answer out. Decodes the call, has it decided, adds headers and
// metadata, encodes the answer.
// Answers before `handle` returns whenever the limiter can decide at once.

import { RequestError } from "../core/errors.ts";
import type { UnaryHandler, UnaryReply } from "../core/unary.ts";
import { type CallFinisher, LimitCall } from "../limiter/call.ts";
import type { Limiter } from "../limiter/limiter.ts";
import { decodeRequest, encodeDecision } from "./codec.ts";
import { addHeaders, type HeaderOptions } from "./headers.ts";
import { addMetadata, type MetadataMode } from "./metadata.ts";
import { failWithCallFailure, failWithError } from "./status.ts";
import { WireWriter } from "./wire-writer.ts";

/** Calls kept for reuse; more are made as needed and left to the garbage collector. */
const POOLED_CALLS_MAX = 4_096;

export interface ServiceOptions {
  readonly limiter: Limiter;
  readonly headers: HeaderOptions;
  readonly metadata: MetadataMode;
  /** Told of errors that are ours; must not throw. */
  readonly onInternalError: (error: unknown) => void;
  /** Told of requests that could not be understood; must not throw. */
  readonly onRequestError: (error: RequestError) => void;
  /** Hears of every decision; must not throw. Absent: nobody does. */
  readonly decisions?: DecisionListener | undefined;
}

/** Who wants to hear of decisions one by one. */
interface DecisionListener {
  /** `traceparent` is the caller's, if it sent one. The call is used again when this returns. */
  decided(call: LimitCall, traceparent: string | undefined): void;
}

/** A call and where its answer goes. */
class ServedCall extends LimitCall {
  reply: UnaryReply | undefined;
}

/** The handler of `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`. */
export class RateLimitService implements UnaryHandler, CallFinisher {
  readonly #options: ServiceOptions;
  readonly #pool: ServedCall[] = [];
  readonly #writer = new WireWriter();

  constructor(options: ServiceOptions) {
    this.#options = options;
  }

  handle(message: Buffer, deadlineUs: number, reply: UnaryReply): void {
    const call = this.#pool.pop() ?? new ServedCall(this);
    call.reply = reply;
    try {
      decodeRequest(message, call.request);
      checkRequest(call);
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
      this.#answer(served);
    } catch (error) {
      this.#fail(served, error);
    }
  }

  #answer(call: ServedCall): void {
    const reply = call.reply as UnaryReply;
    if (call.failure !== undefined) {
      if (call.failure.kind === "internal") this.#options.onInternalError(call.failure.error);
      failWithCallFailure(reply, call.failure);
    } else {
      addHeaders(call, this.#options.headers);
      addMetadata(call, this.#options.metadata);
      reply.ok(encodeDecision(call.decision, this.#writer));
      this.#options.decisions?.decided(call, reply.traceparent);
    }
    this.#release(call);
  }

  #fail(call: ServedCall, error: unknown): void {
    if (error instanceof RequestError) this.#options.onRequestError(error);
    else this.#options.onInternalError(error);
    failWithError(call.reply as UnaryReply, error);
    this.#release(call);
  }

  #release(call: ServedCall): void {
    call.reply = undefined;
    call.reset();
    if (this.#pool.length < POOLED_CALLS_MAX) this.#pool.push(call);
  }
}

/** Throws RequestError for a request without a domain or descriptors. One with no entries is fine: Envoy sends such. */
export function checkRequest(call: LimitCall): void {
  if (call.request.domain === "") {
    throw new RequestError("REQUEST_DOMAIN_EMPTY", "the request names no domain; expected the domain of a rules file");
  }
  if (call.request.descriptorCount === 0) {
    throw new RequestError("REQUEST_DESCRIPTORS_EMPTY", "the request has no descriptors; expected at least one");
  }
}
