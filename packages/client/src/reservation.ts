// A reservation: what was held for a call under way, and its one settlement. limiter.ts sends both.

/// <reference lib="esnext.disposable" preserve="true" />

import type { Degraded } from "./decision.ts";
import { checkWhole } from "./misuse.ts";
import type { Entries } from "./request.ts";

/** What a call may cost, under a rule with `hold`. */
export interface ReserveRequest {
  /** The domain of the rule file. */
  readonly domain: string;
  /** The entries of one descriptor; `headgate explain` tells what it matches. */
  readonly entries: Entries;
  /**
   * In units of the rule, or in the parts of a unit that its `per` names: a whole number up to 2^53 - 1. Absent or 0:
   * the rule's `default`. An amount above the rule's `max` counts as `max`.
   */
  readonly amount?: number;
  /** Must belong to this reservation alone. Default: a random UUID. */
  readonly id?: string;
}

/** The answer to a reservation. */
export interface ReserveAnswer {
  readonly allowed: boolean;
  /**
   * What was paid: the amount within the rule's bounds, rounded up to whole units of the rule. 0 if the reservation was
   * refused, is not limited, or got no answer.
   */
  readonly reserved: number;
  /** What the limit with the least left still has; absent without an answer. */
  readonly remaining?: number;
  /** Whole seconds until another try makes sense. Present if refused, unless this amount can never pass. */
  readonly retryAfterSeconds?: number;
  /** Why it was refused, such as `token_bucket_exceeded`. */
  readonly reason?: string;
  /** Id of the rule that refused, or whose limit `remaining` describes. */
  readonly rule?: string;
  readonly degraded?: Degraded;
}

/** The result of a settlement. */
export interface Settlement {
  /**
   * `settled`: the hold was replaced by what was used. `unknown`: there was no such hold any more, and what was used
   * was charged. `already_settled`: an earlier settlement counts. `not_held`: the reservation was refused, and nothing
   * was sent. `unanswered`: no server accepted it; settle again, or the hold expires by itself.
   */
  readonly found: "settled" | "unknown" | "already_settled" | "not_held" | "unanswered";
  readonly remaining?: number;
  readonly degraded?: Degraded;
}

/**
 * A reservation, allowed or refused. Settle it once the call is over, however it ended. The first of `settle`, `cancel`
 * and the end of a `using` block counts; later ones have the same result, and send it again if no server had accepted
 * it.
 */
export interface Reservation extends ReserveAnswer, Disposable, AsyncDisposable {
  readonly id: string;
  /**
   * Settles at `used`, a whole number up to 2^53 - 1, which may be less or more than what was reserved. Rejects with a
   * TypeError for any other number, and with a CheckFailure if no server accepted it and `onFailure` is "throw".
   */
  settle(used: number): Promise<Settlement>;
  /** Gives back all that was reserved: settles at 0. */
  cancel(): Promise<Settlement>;
  /** Cancels unless it was settled, without waiting for an answer. Never throws. */
  [Symbol.dispose](): void;
  /** Cancels unless it was settled, and waits for the answer. Never rejects. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Makes a reservation. `send` settles at what was used, and rejects if no server accepted it. */
export function reservationOf(
  id: string,
  answer: ReserveAnswer,
  send: (used: number) => Promise<Settlement>,
): Reservation {
  /** The number of the first settlement. */
  let first: number | undefined;
  /** A settlement under way, or accepted by a server. */
  let settlement: Promise<Settlement> | undefined;
  const sendOnce = async (used: number) => {
    try {
      const settled = await send(used);
      if (settled.found === "unanswered") settlement = undefined;
      return settled;
    } catch (error) {
      settlement = undefined;
      throw error;
    }
  };
  const settle = async (used: number) => {
    checkWhole("used", used, 0, Number.MAX_SAFE_INTEGER);
    first ??= used;
    settlement ??= sendOnce(first);
    return settlement;
  };
  // `onDegraded` got the failure, and the hold expires by itself.
  const dispose = async () => {
    await settle(0).catch(() => undefined);
  };
  return {
    id,
    ...answer,
    settle,
    cancel: () => settle(0),
    [Symbol.dispose]: () => void dispose(),
    [Symbol.asyncDispose]: dispose,
  };
}
