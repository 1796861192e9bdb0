// The time: a server reads it from a clock that it is given, so that tests can move it by hand.

export const MICROS_PER_SECOND = 1_000_000;
export const MICROS_PER_MILLI = 1_000;

/** Tells the time. */
export interface Clock {
  /** Microseconds since the Unix epoch, a whole number. Never steps back. */
  nowUs(): number;
}

/** The time of day when this process began, and what has passed since then. */
export const SYSTEM_CLOCK: Clock = {
  nowUs: () => Math.floor((performance.timeOrigin + performance.now()) * MICROS_PER_MILLI),
};
