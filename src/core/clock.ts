// The one source of now. Everything that decides takes a Clock, so tests move time by hand.

import { performance } from "node:perf_hooks";

/** Tells the time. */
export interface Clock {
  /** Microseconds since the Unix epoch, a whole number below 2^53. Never steps back within a process. */
  nowUs(): number;
}

/** The wall clock read once at start, moved on by the monotonic clock: it ignores later steps of the wall clock. */
export class SystemClock implements Clock {
  // performance.timeOrigin is the wall clock at process start, in milliseconds with a fraction.
  readonly #originMs = performance.timeOrigin;

  nowUs(): number {
    return Math.floor((this.#originMs + performance.now()) * 1000);
  }
}

/** The wall clock itself: it steps when the host's clock is set. For windows that other processes cut at the same seconds. */
export class WallClock implements Clock {
  nowUs(): number {
    return Date.now() * 1000;
  }
}

/**
 * Puts a deadline that others set by the wall clock, in milliseconds, on `clock`, in its microseconds.
 * Infinity stays Infinity; a deadline that has passed comes out in the past.
 */
export function deadlineOn(clock: Clock, wallDeadlineMs: number): number {
  return clock.nowUs() + (wallDeadlineMs - Date.now()) * 1000;
}
