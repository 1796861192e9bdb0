// Time that tests move by hand.

import { type Clock, ClockShift } from "../../src/base/clock.ts";

/** A clock that stands still until it is told otherwise. */
export class ManualClock implements Clock {
  #nowUs: number;
  readonly shift = new ClockShift();

  /** Starts at 2026-01-01T00:00:00Z unless told otherwise: a whole day, so windows up to a day begin there. */
  constructor(startUs = Date.UTC(2026, 0, 1) * 1000) {
    this.#nowUs = startUs;
  }

  nowUs(): number {
    return this.#nowUs;
  }

  /** Moves time; a negative number steps it back. */
  advanceUs(deltaUs: number): void {
    this.#nowUs += deltaUs;
  }

  advanceMs(deltaMs: number): void {
    this.advanceUs(deltaMs * 1000);
  }

  advanceSeconds(deltaSeconds: number): void {
    this.advanceUs(deltaSeconds * 1_000_000);
  }

  /** Sets the host's clock, which then shows a time of day so many seconds from this one. */
  setHostAhead(seconds: number): void {
    this.shift.follow(seconds * 1_000_000, this.#nowUs);
  }

  setUs(nowUs: number): void {
    this.#nowUs = nowUs;
  }
}
