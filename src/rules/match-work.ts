// How long the matching of one call may take. Rules are tried one after the other and values may be long, so that a call
// could stop all others; this counts the work and looks at the clock now and then. match.ts spends, the limiter begins.

import type { Clock } from "../core/clock.ts";
import { RequestError } from "../core/errors.ts";

/** Matching that takes longer ends the call. */
export const MATCH_US_MAX = 20_000;

/** The most that lies between two looks; what is longer was not our work but a process that stood still (schema.ts). */
const LOOK_US_MAX = 12_000;

/** Work between two looks at the clock: a unit is a few nanoseconds, so a look is made every few microseconds. */
const UNITS_PER_LOOK = 1_000;

/** The work of one call at a time. */
export class MatchWork {
  readonly #clock: Clock | undefined;
  #spentUs = 0;
  /** When the clock was looked at last; 0 before the first look of a call. */
  #lookedUs = 0;
  #left = UNITS_PER_LOOK;

  /** Without a clock any amount of work is fine. */
  constructor(clock?: Clock) {
    this.#clock = clock;
  }

  /** Begins with the work of another call. */
  begin(): void {
    this.#spentUs = 0;
    this.#lookedUs = 0;
    this.#left = UNITS_PER_LOOK;
  }

  /** Notes a pattern that is tried on a text. Throws RequestError REQUEST_MATCHING when there was too much of it. */
  spendPattern(textLength: number): void {
    this.#left -= 8 + (textLength >> 4);
    if (this.#left < 0) this.#look();
  }

  /** Notes work that may take long: looks at the clock before it. */
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

/** For who may take as long as it takes. */
export const ANY_MATCH_WORK = new MatchWork();
