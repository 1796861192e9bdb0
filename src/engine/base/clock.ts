// The one source of the current time. Everything that decides takes a Clock, so tests move time by hand.

import { performance } from "node:perf_hooks";

/** When this process began, in milliseconds since the Unix epoch; the same in all of its threads. */
export const PROCESS_BEGAN_MS = Math.floor(performance.timeOrigin);

/** Tells the time. */
export interface Clock {
  /** Microseconds since the Unix epoch, a whole number below 2^53. Never steps back within a process. */
  nowUs(): number;
}

/** The wall clock at process start plus the monotonic time since then: later steps of the wall clock have no effect. */
export class SystemClock implements Clock {
  // performance.timeOrigin is the wall clock at process start, in milliseconds with a fraction.
  readonly #originMs = performance.timeOrigin;

  nowUs(): number {
    return Math.floor((this.#originMs + performance.now()) * 1000);
  }
}

/** The wall clock itself: it steps when the host's clock is set. For windows that must begin at the same second in all processes. */
export class WallClock implements Clock {
  nowUs(): number {
    return Date.now() * 1000;
  }
}

/**
 * Converts a deadline from milliseconds of the wall clock to microseconds of `clock`. Infinity stays Infinity; the result lies in
 * the past if the deadline has passed.
 */
export function deadlineOn(clock: Clock, wallDeadlineMs: number): number {
  return clock.nowUs() + (wallDeadlineMs - Date.now()) * 1000;
}
