// Time that tests move by hand.

import type { Clock } from "../../src/engine/base/clock.ts";

/** A clock that stands still until it is told otherwise. */
export class ManualClock implements Clock {
  #nowUs: number;

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

  setUs(nowUs: number): void {
    this.#nowUs = nowUs;
  }
}
