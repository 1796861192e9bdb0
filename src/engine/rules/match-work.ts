// Bounds the time of matching per call. Many rules and long values could make one call block all others, so match.ts counts its work
// here, and the clock is read now and then. The limiter calls `begin` for each call.

import type { Clock } from "../base/clock.ts";
import { RequestError } from "../base/errors.ts";

/** Longest matching of one call, in microseconds. */
export const MATCH_US_MAX = 20_000;

/**
 * Most time that counts between two readings of the clock: one regular expression takes 12 ms at most (schema.ts). In a longer time the
 * process itself was stopped.
 */
const LOOK_US_MAX = 12_000;

/** Units of work between two readings of the clock. A unit takes a few nanoseconds, so the clock is read every few microseconds. */
const UNITS_PER_LOOK = 1_000;

/** The work of one call at a time. */
export class MatchWork {
  readonly #clock: Clock | undefined;
  #spentUs = 0;
  /** The last reading of the clock; 0 before the first one of a call. */
  #lookedUs = 0;
  #left = UNITS_PER_LOOK;

  /** Without a clock there is no bound. */
  constructor(clock?: Clock) {
    this.#clock = clock;
  }

  /** Begins the next call. */
  begin(): void {
    this.#spentUs = 0;
    this.#lookedUs = 0;
    this.#left = UNITS_PER_LOOK;
  }

  /** Counts the work of trying a pattern. Throws RequestError REQUEST_MATCHING if the call took too long. */
  spendPattern(textLength: number): void {
    this.#left -= 8 + (textLength >> 4);
    if (this.#left < 0) this.#look();
  }

  /** Reads the clock before work that may take long. Throws as `spendPattern` does. */
  spendLong(): void {
    this.#look();
  }

  #look(): void {
    this.#left = UNITS_PER_LOOK;
    if (this.#clock === undefined) return;
    const nowUs = this.#clock.nowUs();
    if (this.#lookedUs > 0) this.#spentUs += Math.min(nowUs - this.#lookedUs, LOOK_US_MAX);
    this.#lookedUs = nowUs;
    if (this.#spentUs < MATCH_US_MAX) return;
    throw new RequestError(
      "REQUEST_MATCHING",
      `matching the descriptors took longer than ${MATCH_US_MAX / 1_000} ms; expected fewer descriptors, shorter values or simpler patterns`,
    );
  }
}

/** Unbounded work, for matching outside of calls. */
export const ANY_MATCH_WORK = new MatchWork();
