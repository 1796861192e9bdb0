// The client for services that ask Headgate directly: one check, one call, one decision. HTTP is left to middleware.ts.

import { type ServiceError, status } from "@grpc/grpc-js";
import { type Answer, type CheckDecision, decisionOf, withoutAnswer } from "./decision.ts";
import { CheckFailure, type OnFailure } from "./failure.ts";
import { type CompleteOptions, completeOptions, type LimiterOptions } from "./options.ts";
import { readAnswer } from "./read-answer.ts";
import type { CheckRequest } from "./request.ts";
import { type Server, ServerRing } from "./server-ring.ts";
import { writeRequest } from "./write-request.ts";

export interface Limiter {
  /**
   * Asks once. A call that may have been paid is never sent again; one that no server has begun is sent again, to another server if there is one.
   * Rejects with a TypeError for a request that can't be sent, with a CheckFailure under `onFailure: "throw"`, and else
   * never; being over a limit is a decision.
   */
  check(request: CheckRequest): Promise<CheckDecision>;
  /** Lets go of the connections. Checks under way may end; later ones fail as the policy has it. */
  close(): void;
}

/** Opens connections to the servers and returns at once. Throws TypeError for options that make no sense. */
export function createLimiter(options: LimiterOptions): Limiter {
  return new GrpcLimiter(completeOptions(options));
}

const PATH = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

class GrpcLimiter implements Limiter {
  readonly #ring: ServerRing;
  readonly #deadlineMs: number;
  readonly #onFailure: OnFailure;
  readonly #onDegraded: ((failure: CheckFailure) => void) | undefined;
  #isClosed = false;

  constructor(options: CompleteOptions) {
    this.#ring = new ServerRing(options);
    this.#deadlineMs = options.deadlineMs;
    this.#onFailure = options.onFailure;
    this.#onDegraded = options.onDegraded;
  }

  async check(request: CheckRequest): Promise<CheckDecision> {
    // Outside of what the policy answers for: it must not stand in for a mistake of whoever calls.
    const message = writeRequest(request);
    try {
      return decisionOf(await this.#ask(message));
    } catch (error) {
      const failure = asFailure(error);
      this.#tellDegraded(failure);
      if (this.#onFailure === "throw") throw failure;
      return withoutAnswer(this.#onFailure, failure);
    }
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#ring.close();
  }

  // What listens must not decide: its own faults are told, and the policy stands.
  #tellDegraded(failure: CheckFailure): void {
    try {
      this.#onDegraded?.(failure);
    } catch (error) {
      process.emitWarning(`onDegraded of a limiter threw: ${String(error)}`, "HeadgateWarning");
    }
  }

  // A server that goes may turn calls away that it has not begun: they are sent again, to another one if there is one, as
  // long as there is time and at most once more than there are servers.
  async #ask(message: Buffer): Promise<Answer> {
    if (this.#isClosed) throw new CheckFailure("CANCELLED", "the limiter was closed");
    const deadline = Date.now() + this.#deadlineMs;
    for (let retriesLeft = this.#ring.size; ; retriesLeft--) {
      const server = await this.#ring.pick(deadline);
      if (server === "away") throw new CheckFailure("UNAVAILABLE", "none of the servers is in reach");
      if (server === "late") {
        throw new CheckFailure("DEADLINE_EXCEEDED", `no connection to any server within ${this.#deadlineMs} ms`);
      }
      const outcome = await this.#send(server, message, deadline);
      if (outcome.answer !== undefined) return outcome.answer;
      if (!outcome.isUntouched || retriesLeft <= 0) throw failureOf(outcome.error, server.address);
    }
  }

  #send(server: Server, message: Buffer, deadline: number): Promise<Outcome> {
    return new Promise((resolve) => {
      const call = server.client.makeUnaryRequest(PATH, asItIs, readAnswer, message, { deadline }, (error, answer) => {
        if (error === null) {
          this.#ring.answered(server);
          resolve({ answer: answer as Answer });
          return;
        }
        if (isFaultOfServer(error)) this.#ring.failed(server);
        else this.#ring.answered(server);
        const isUnsent = call.getPeer() === server.client.getChannel().getTarget();
        resolve({ answer: undefined, error, isUntouched: isUntouched(error, isUnsent) });
      });
    });
  }
}

type Outcome =
  | { readonly answer: Answer }
  | { readonly answer: undefined; readonly error: ServiceError; readonly isUntouched: boolean };

/** What grpc-js says of a stream that was reset with REFUSED_STREAM, or that a GOAWAY left out: HTTP/2's word for "not begun". */
const REFUSED = "Stream refused by server";

/**
 * True if it is certain that no server has begun the call. A connection that breaks says nothing about the calls on it.
 * `isUnsent`: the call has no peer but the name it was meant for, because no stream was ever made for it.
 */
function isUntouched({ code, details }: ServiceError, isUnsent: boolean): boolean {
  return code === status.UNAVAILABLE && (isUnsent || details === REFUSED);
}

function asItIs(bytes: Buffer): Buffer {
  return bytes;
}

// The others say something about the request, and would come from every server.
function isFaultOfServer({ code }: ServiceError): boolean {
  return code !== status.INVALID_ARGUMENT && code !== status.CANCELLED;
}

function failureOf(error: ServiceError, server: string): CheckFailure {
  return new CheckFailure(status[error.code] ?? String(error.code), error.details, { server, cause: error });
}

function asFailure(error: unknown): CheckFailure {
  return error instanceof CheckFailure ? error : new CheckFailure("INTERNAL", messageIn(error), { cause: error });
}

function messageIn(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
