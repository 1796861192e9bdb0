// The client for services that ask Headgate directly: checks, and reservations. HTTP is left to middleware.ts.

import { readReserved, readSettled, writeHold, writeNumber } from "./budgets-wire.ts";
import { Caller, type Method } from "./caller.ts";
import { type Answer, type CheckDecision, type Degraded, decisionOf, withoutAnswer } from "./decision.ts";
import { CheckFailure, type OnFailure } from "./failure.ts";
import { type CompleteOptions, completeOptions, type LimiterOptions } from "./options.ts";
import { readAnswer } from "./read-answer.ts";
import type { CheckRequest } from "./request.ts";
import {
  type Reservation,
  type ReserveAnswer,
  type ReserveRequest,
  reservationOf,
  type Settlement,
} from "./reservation.ts";
import type { Server } from "./server-ring.ts";
import { writeRequest } from "./write-request.ts";

export interface Limiter {
  /**
   * Asks once. A call that may have been paid is never sent again; one that no server has begun is sent again, to another server if there is one.
   * Rejects with a TypeError for a request that can't be sent, with a CheckFailure under `onFailure: "throw"`, and else
   * never; being over a limit is a decision.
   */
  check(request: CheckRequest): Promise<CheckDecision>;
  /**
   * Pays what a call may cost, and leaves a hold that is settled once its cost is known. Asks once, and rejects, as `check` does;
   * without an answer the policy allows or denies it.
   */
  reserve(request: ReserveRequest): Promise<Reservation>;
  /** Lets go of the connections. Checks under way may end; later ones fail as the policy has it. */
  close(): void;
}

/** Opens connections to the servers and returns at once. Throws TypeError for options that make no sense. */
export function createLimiter(options: LimiterOptions): Limiter {
  return new GrpcLimiter(completeOptions(options));
}

const CHECK: Method<Answer> = {
  path: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
  read: readAnswer,
};
const RESERVE: Method<ReserveAnswer> = { path: "/headgate.v1.Budgets/Reserve", read: readReserved };
const SETTLE: Method<Settlement> = { path: "/headgate.v1.Budgets/Settle", read: readSettled };

/** How often a settlement is sent that gets no answer, in all: it counts once however often it is sent. */
const SETTLE_CALLS_MAX = 3;
/** Pause before a settlement is sent again, in which a server may come back. */
const SETTLE_PAUSE_MS = 100;

class GrpcLimiter implements Limiter {
  readonly #caller: Caller;
  readonly #onFailure: OnFailure;
  readonly #onDegraded: ((failure: CheckFailure) => void) | undefined;

  constructor(options: CompleteOptions) {
    this.#caller = new Caller(options);
    this.#onFailure = options.onFailure;
    this.#onDegraded = options.onDegraded;
  }

  async check(request: CheckRequest): Promise<CheckDecision> {
    // Outside of what the policy answers for: it must not stand in for a mistake of whoever calls.
    const message = writeRequest(request);
    try {
      const { answer } = await this.#caller.call(CHECK, message);
      return decisionOf(answer);
    } catch (error) {
      const failure = this.#told(error);
      if (this.#onFailure === "throw") throw failure;
      return withoutAnswer(this.#onFailure, failure);
    }
  }

  async reserve(request: ReserveRequest): Promise<Reservation> {
    const id = request?.id ?? crypto.randomUUID();
    const hold = writeHold(request, id);
    const amount = writeNumber("amount", request.amount ?? 0);
    try {
      const { answer, server } = await this.#caller.call(RESERVE, Buffer.concat([hold, amount]));
      const isHeld = answer.allowed;
      return reservationOf(id, answer, (used) => (isHeld ? this.#settle(hold, used, server) : NOT_HELD));
    } catch (error) {
      const failure = this.#told(error);
      if (this.#onFailure === "throw") throw failure;
      const degraded: Degraded = { by: "client", policy: this.#onFailure, failure: failure.code };
      const answer =
        this.#onFailure === "allow"
          ? { allowed: true, reserved: 0, degraded }
          : { allowed: false, reserved: 0, retryAfterSeconds: 1, degraded };
      // Only the answer may have been lost: a hold that is there is settled, and what was used is charged if none is.
      return reservationOf(id, answer, (used) => this.#settle(hold, used, undefined));
    }
  }

  close(): void {
    this.#caller.close();
  }

  // The server that holds goes first: with the memory store no other knows of it.
  async #settle(hold: Buffer, used: number, first: Server | undefined): Promise<Settlement> {
    const message = Buffer.concat([hold, writeNumber("used", used)]);
    for (let callsLeft = SETTLE_CALLS_MAX - 1; ; callsLeft--) {
      try {
        const { answer } = await this.#caller.call(SETTLE, message, first);
        return answer;
      } catch (error) {
        if (callsLeft > 0 && isWorthAnother(error)) {
          await new Promise((resolve) => setTimeout(resolve, SETTLE_PAUSE_MS));
          continue;
        }
        const failure = this.#told(error);
        if (this.#onFailure === "throw") throw failure;
        return { found: "unanswered", degraded: { by: "client", policy: this.#onFailure, failure: failure.code } };
      }
    }
  }

  // What listens must not decide: its own faults are told, and the policy stands.
  #told(error: unknown): CheckFailure {
    const failure = asFailure(error);
    try {
      this.#onDegraded?.(failure);
    } catch (fault) {
      process.emitWarning(`onDegraded of a limiter threw: ${String(fault)}`, "HeadgateWarning");
    }
    return failure;
  }
}

const NOT_HELD: Promise<Settlement> = Promise.resolve({ found: "not_held" });

/** Whether the same call may be answered a moment later. */
function isWorthAnother(error: unknown): boolean {
  const code = asFailure(error).code;
  return code === "UNAVAILABLE" || code === "DEADLINE_EXCEEDED" || code === "RESOURCE_EXHAUSTED";
}

function asFailure(error: unknown): CheckFailure {
  return error instanceof CheckFailure ? error : new CheckFailure("INTERNAL", messageIn(error), { cause: error });
}

function messageIn(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
