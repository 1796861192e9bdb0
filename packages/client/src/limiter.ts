// The client for services that ask Headgate directly: checks and reservations. middleware.ts adds HTTP.

import { readReserved, readSettled, writeHold, writeNumber } from "./budgets-wire.ts";
import { Caller, type Method } from "./caller.ts";
import { type Answer, type CheckDecision, type Degraded, decisionOf } from "./decision.ts";
import { CheckFailure, type OnFailure } from "./failure.ts";
import { checkWhole } from "./misuse.ts";
import { type CompleteOptions, completeOptions, type LimiterOptions, TIMER_MS_MAX } from "./options.ts";
import { readAnswer } from "./read-answer.ts";
import type { CheckRequest, WaitRequest } from "./request.ts";
import {
  type Reservation,
  type ReserveAnswer,
  type ReserveRequest,
  reservationOf,
  type Settlement,
} from "./reservation.ts";
import { Turns } from "./turns.ts";
import { queueKeyOf, writeRequest } from "./write-request.ts";

export interface Limiter {
  /**
   * Asks once. A call that may have been paid is never sent again; a call that no server has begun is, to another
   * server if there is one. Over limit is a decision, not an error. Rejects with a TypeError if the request can't be
   * sent, and with a CheckFailure if the limiter is closed, or if there is no usable answer and `onFailure` is "throw".
   */
  check(request: CheckRequest): Promise<CheckDecision>;
  /**
   * Waits until the call may pass, as long as the service says, behind earlier calls of this limiter with the same
   * domain and entries. Rejects with a WaitRefused as soon as it is known that `maxWaitMs` is too short, with the
   * signal's reason, and like `check`. While no server answers, `onFailure: "deny"` has it ask every second. A call
   * that is aborted while it is being checked may have been paid.
   */
  wait(request: WaitRequest, options?: { readonly signal?: AbortSignal | undefined }): Promise<CheckDecision>;
  /**
   * Pays what a call may cost, and leaves a hold that is settled once the cost is known. Asks once, and rejects, like
   * `check`; without an answer the policy allows or denies.
   */
  reserve(request: ReserveRequest): Promise<Reservation>;
  /**
   * Closes the connections. Checks under way may still end; those that wait and later ones reject with a CheckFailure,
   * whatever `onFailure` says.
   */
  close(): void;
}

/** Opens connections to the servers, and returns at once. Throws TypeError for invalid options. */
export function createLimiter(options: LimiterOptions): Limiter {
  return new GrpcLimiter(completeOptions(options));
}

const CHECK: Method<Answer> = {
  path: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
  read: readAnswer,
};
const RESERVE: Method<ReserveAnswer> = { path: "/headgate.v1.Budgets/Reserve", read: readReserved };
const SETTLE: Method<Settlement> = { path: "/headgate.v1.Budgets/Settle", read: readSettled };

/** Most attempts to send a settlement. It may be repeated, because it counts once however often it is sent. */
const SETTLE_CALLS_MAX = 3;
/** Pause between attempts, in which a server may come back. In milliseconds. */
const SETTLE_PAUSE_MS = 100;

class GrpcLimiter implements Limiter {
  readonly #caller: Caller;
  readonly #turns = new Turns((request) => this.check(request));
  readonly #onFailure: OnFailure;
  readonly #onDegraded: ((failure: CheckFailure) => void) | undefined;

  constructor(options: CompleteOptions) {
    this.#caller = new Caller(options);
    this.#onFailure = options.onFailure;
    this.#onDegraded = options.onDegraded;
  }

  async check(request: CheckRequest): Promise<CheckDecision> {
    // Outside the try block: the policy must not hide a mistake in the request.
    const message = writeRequest(request);
    this.#requireOpen();
    try {
      const { answer } = await this.#caller.call(CHECK, message);
      return decisionOf(answer);
    } catch (error) {
      return { ...this.#withoutAnswer(error), statuses: [], headers: {}, metadata: {} };
    }
  }

  async wait({ maxWaitMs, ...request }: WaitRequest, options: { readonly signal?: AbortSignal | undefined } = {}) {
    checkWhole("maxWaitMs", maxWaitMs, 0, TIMER_MS_MAX);
    this.#requireOpen();
    return this.#turns.wait(queueKeyOf(request), request, maxWaitMs, options.signal);
  }

  async reserve(request: ReserveRequest): Promise<Reservation> {
    const id = request?.id ?? crypto.randomUUID();
    const hold = writeHold(request, id);
    const amount = writeNumber("amount", request.amount ?? 0);
    this.#requireOpen();
    try {
      const { answer, server } = await this.#caller.call(RESERVE, Buffer.concat([hold, amount]));
      const isHeld = answer.allowed;
      return reservationOf(id, answer, (used) => (isHeld ? this.#settle(hold, used, server) : NOT_HELD));
    } catch (error) {
      const answer = { ...this.#withoutAnswer(error), reserved: 0 };
      // The reservation may exist, if only its answer was lost. So it is settled in any case; without a hold, what was
      // used is charged.
      return reservationOf(id, answer, (used) => this.#settle(hold, used, asFailure(error).server));
    }
  }

  close(): void {
    this.#caller.close();
    this.#turns.close();
  }

  // Using a closed limiter is a mistake in the program, which no policy may hide.
  #requireOpen(): void {
    if (this.#caller.isClosed) throw new CheckFailure("CANCELLED", "the limiter is closed");
  }

  // Asks the server with the hold: with the memory store no other server knows it, and would charge what was used once
  // more. The last call goes to another server, which knows the hold if the store is shared.
  async #settle(hold: Buffer, used: number, holder: string | undefined): Promise<Settlement> {
    let first = holder;
    const message = Buffer.concat([hold, writeNumber("used", used)]);
    this.#requireOpen();
    for (let callsLeft = SETTLE_CALLS_MAX - 1; ; callsLeft--) {
      try {
        const preference = callsLeft === 0 ? { avoided: first } : { first };
        const { answer } = await this.#caller.call(SETTLE, message, preference);
        return answer;
      } catch (error) {
        // Without an answer it may have settled all the same.
        first ??= asFailure(error).server;
        if (callsLeft > 0 && isWorthAnother(error)) {
          await new Promise((resolve) => setTimeout(resolve, SETTLE_PAUSE_MS));
          continue;
        }
        return { found: "unanswered", degraded: this.#withoutAnswer(error).degraded };
      }
    }
  }

  /** Calls `onDegraded`, then decides by the policy. Throws the failure if the policy is "throw". */
  #withoutAnswer(error: unknown) {
    const failure = asFailure(error);
    try {
      this.#onDegraded?.(failure);
    } catch (fault) {
      // It must not change the decision, so it becomes a warning.
      process.emitWarning(`onDegraded of a limiter threw: ${String(fault)}`, "HeadgateWarning");
    }
    const policy = this.#onFailure;
    if (policy === "throw") throw failure;
    const degraded: Degraded = { by: "client", policy, failure: failure.code };
    return policy === "allow" ? { allowed: true, degraded } : { allowed: false, retryAfterSeconds: 1, degraded };
  }
}

const NOT_HELD: Promise<Settlement> = Promise.resolve({ found: "not_held" });

/** Whether the same call may succeed a moment later. */
function isWorthAnother(error: unknown): boolean {
  const code = asFailure(error).code;
  return code === "UNAVAILABLE" || code === "DEADLINE_EXCEEDED" || code === "RESOURCE_EXHAUSTED";
}

function asFailure(error: unknown): CheckFailure {
  if (error instanceof CheckFailure) return error;
  return new CheckFailure("INTERNAL", error instanceof Error ? error.message : String(error), { cause: error });
}
