// The one source of the current time. Everything that decides takes a Clock, so tests move time by hand.

import { MICROS_PER_SECOND } from "./units.ts";

/** When this process began, in milliseconds since the Unix epoch. */
export const PROCESS_BEGAN_MS = Math.floor(performance.timeOrigin);

/** Tells the time. */
export interface Clock {
  /** Microseconds since the Unix epoch, a whole number below 2^53. Never steps back within a process. */
  nowUs(): number;
  /** How far the time of day is from `nowUs`; absent if it never is. */
  readonly shift?: ClockShift;
}

/** By how much the host's clock was set since the process began. */
export class ClockShift {
  /** To be added to Clock.nowUs for the time of day; whole seconds, so that windows still begin with whole seconds. */
  us = 0;
  /** When it changed last, in microseconds of Clock.nowUs; 0 if it never did. */
  changedAtUs = 0;

  /** Follows a clock that is `aheadUs` ahead, unless that differs by less than a second. */
  follow(aheadUs: number, nowUs: number): void {
    if (Math.abs(aheadUs - this.us) < MICROS_PER_SECOND) return;
    this.us = Math.round(aheadUs / MICROS_PER_SECOND) * MICROS_PER_SECOND;
    this.changedAtUs = nowUs;
  }
}

/** Of a clock that nobody sets, such as a server's. */
export const NO_SHIFT: Readonly<ClockShift> = new ClockShift();

/**
 * The wall clock at process start plus the monotonic time since then. If the host's clock is set, `shift` follows
 * within a second.
 */
export class SystemClock implements Clock {
  // performance.timeOrigin is the wall clock at process start, in milliseconds with a fraction.
  readonly #originMs = performance.timeOrigin;
  readonly shift = new ClockShift();
  #looksAtUs = 0;

  nowUs(): number {
    const nowUs = Math.floor((this.#originMs + performance.now()) * 1000);
    if (nowUs >= this.#looksAtUs) this.#look(nowUs);
    return nowUs;
  }

  #look(nowUs: number): void {
    this.#looksAtUs = nowUs + MICROS_PER_SECOND;
    this.shift.follow(Date.now() * 1000 - nowUs, nowUs);
  }
}

/**
 * The time of day, as far as the given clock knows it: for windows, ends of limits at run time, and what people read.
 */
export class DayClock implements Clock {
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  nowUs(): number {
    return this.#clock.nowUs() + (this.#clock.shift?.us ?? 0);
  }
}

/**
 * The wall clock itself: it steps when the host's clock is set. For windows that must begin at the same second in all
 * processes.
 */
export class WallClock implements Clock {
  nowUs(): number {
    return Date.now() * 1000;
  }
}

/**
 * Converts a deadline from milliseconds of the wall clock to microseconds of `clock`. Infinity stays Infinity; the
 * result lies in the past if the deadline has passed.
 */
export function deadlineOn(clock: Clock, wallDeadlineMs: number): number {
  return clock.nowUs() + (wallDeadlineMs - Date.now()) * 1000;
}
