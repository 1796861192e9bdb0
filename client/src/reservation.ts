// A reservation: what was held for a call that is under way, and its one settlement. How it is sent is left to limiter.ts.

/// <reference lib="esnext.disposable" preserve="true" />

import type { Degraded } from "./decision.ts";
import { checkWhole } from "./misuse.ts";
import type { Entries } from "./request.ts";

/** What a call may cost, of a rule with `hold`. */
export interface ReserveRequest {
  /** The domain of the rule file. */
  readonly domain: string;
  /** One descriptor's; what it matches is told by `headgate explain`. */
  readonly entries: Entries;
  /**
   * In units of the rule, or in the parts of them that its `per` names: a whole number up to 2^53 - 1. Absent or 0: the rule's
   * `default`. More than its `max` counts as that.
   */
  readonly amount?: number;
  /** Of this reservation alone. Default: a random UUID. */
  readonly id?: string;
}

/** What a reservation was answered. */
export interface ReserveAnswer {
  readonly allowed: boolean;
  /** What was paid: the amount within the rule's bounds, rounded up to whole units of the rule. 0 where it was refused, is not limited, or got no answer. */
  readonly reserved: number;
  /** What the limit still has that is nearest to its end; absent without an answer. */
  readonly remaining?: number;
  /** Whole seconds until it makes sense to ask again; present when refused, unless this amount can never pass. */
  readonly retryAfterSeconds?: number;
  /** Why it was refused, such as `token_bucket_exceeded`. */
  readonly reason?: string;
  /** Id of the rule that refused, or whose limit `remaining` is of. */
  readonly rule?: string;
  readonly degraded?: Degraded;
}

/** What became of a settlement. */
export interface Settlement {
  /**
   * `settled`: the hold came to what was used. `unknown`: there was no hold any more, and what was used is charged.
   * `already_settled`: an earlier settlement counts. `not_held`: the reservation was refused, nothing was sent.
   * `unanswered`: no server took it; settle again, or the hold ends by itself.
   */
  readonly found: "settled" | "unknown" | "already_settled" | "not_held" | "unanswered";
  readonly remaining?: number;
  readonly degraded?: Degraded;
}

/**
 * One reservation, allowed or refused. Settle it once the call is over, however it ends: the first of `settle`, `cancel` and the
 * end of a `using` block counts. Those after it come to the same, and send it again where no server had taken it.
 */
export interface Reservation extends ReserveAnswer, Disposable, AsyncDisposable {
  readonly id: string;
  /**
   * Has the reservation come to `used`, a whole number up to 2^53 - 1, whether that is less or more than what was reserved.
   * Rejects with a TypeError for another number, and with a CheckFailure where no server took it under `onFailure: "throw"`.
   */
  settle(used: number): Promise<Settlement>;
  /** Gives back all that was reserved: settles at 0. */
  cancel(): Promise<Settlement>;
  /** Cancels unless it was settled, and waits for no answer. Never throws. */
  [Symbol.dispose](): void;
  /** Cancels unless it was settled, and waits for the answer. Never rejects. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** `send` settles at what was used, and rejects where no server took it. */
export function reservationOf(
  id: string,
  answer: ReserveAnswer,
  send: (used: number) => Promise<Settlement>,
): Reservation {
  return new SettledOnce(id, answer, send);
}

class SettledOnce implements Reservation {
  readonly id: string;
  readonly allowed: boolean;
  readonly reserved: number;
  declare readonly remaining?: number;
  declare readonly retryAfterSeconds?: number;
  declare readonly reason?: string;
  declare readonly rule?: string;
  declare readonly degraded?: Degraded;
  readonly #send: (used: number) => Promise<Settlement>;
  /** What the first settlement said. */
  #used: number | undefined;
  /** Under way, or taken by a server. */
  #settlement: Promise<Settlement> | undefined;

  constructor(id: string, answer: ReserveAnswer, send: (used: number) => Promise<Settlement>) {
    this.id = id;
    this.allowed = answer.allowed;
    this.reserved = answer.reserved;
    Object.assign(this, answer);
    this.#send = send;
  }

  async settle(used: number): Promise<Settlement> {
    checkWhole("used", used, 0, Number.MAX_SAFE_INTEGER);
    this.#used ??= used;
    this.#settlement ??= this.#sendOnce(this.#used);
    return this.#settlement;
  }

  cancel(): Promise<Settlement> {
    return this.settle(0);
  }

  [Symbol.dispose](): void {
    void this[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // What can fail here was told to `onDegraded`, and the hold ends by itself.
    await this.cancel().catch(() => undefined);
  }

  async #sendOnce(used: number): Promise<Settlement> {
    try {
      const settlement = await this.#send(used);
      if (settlement.found === "unanswered") this.#settlement = undefined;
      return settlement;
    } catch (error) {
      this.#settlement = undefined;
      throw error;
    }
  }
}
