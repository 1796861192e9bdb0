// Units of time and amount, and division with a stated rounding.

export const MICROS_PER_SECOND = 1_000_000;
export const MICROS_PER_MILLI = 1_000;

/** Latest time of a recorded call: the year 2200. Clocks reach to 2255, and buckets may end later than the call. */
export const TIME_US_MAX = Date.UTC(2200, 0, 1) * MICROS_PER_MILLI;

/**
 * A token bucket's debt is counted in millionths of a token. `amount` millionths return per tick: `amount` tokens per
 * window.
 */
export const MICROS_PER_TOKEN = 1_000_000;

/** Ticks in one window of any length: a tick has as many microseconds as the window has whole seconds. */
export const TICKS_PER_WINDOW = 1_000_000;

/** Largest amount, burst or cost; keeps every product of the algorithms below 2^53. */
export const AMOUNT_MAX = 4_294_967_295;

/** A cost above every possible limit. Larger costs are counted as this. */
export const COST_ABOVE_ALL = AMOUNT_MAX + 1;

/** Integer division that rounds down; both operands are whole, not negative, and below 2^53. */
export function divideDown(dividend: number, divisor: number): number {
  return Math.floor(dividend / divisor);
}

/** Integer division that rounds up; both operands are whole, not negative, and below 2^53. */
export function divideUp(dividend: number, divisor: number): number {
  return Math.ceil(dividend / divisor);
}

/** A time in microseconds since the Unix epoch in ISO 8601: `2026-01-02T03:04:05.678Z`. */
export function isoTime(us: number): string {
  return new Date(us / 1_000).toISOString();
}

/**
 * The day of an ISO time if its month has no such day, such as `2027-02-31`, which Date takes for one of the next
 * month.
 */
export function missingDay(text: string): string | undefined {
  const [day = ""] = /^\d{4}-\d\d-\d\d(?=T)/.exec(text) ?? [];
  const ms = Date.parse(day);
  return Number.isNaN(ms) || isoTime(ms * 1_000).startsWith(day) ? undefined : day;
}

/**
 * A length of time for people, in its two largest units: `250 ms`, `1.5 s`, `6 min`, `2 h 5 min`, `8 d 18 h`. The page
 * has the same for whole seconds (page/words.mjs).
 */
export function durationWords(seconds: number): string {
  if (seconds > 0 && seconds < 1) return `${tenths(seconds * 1_000)} ms`;
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${tenths(Math.max(0, seconds))} s`;
  const minutes = divideDown(whole, 60);
  if (minutes < 60) return minutes < 5 && whole % 60 > 0 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
  const hours = divideDown(minutes, 60);
  if (hours < 24) return minutes % 60 > 0 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = divideDown(hours, 24);
  return hours % 24 > 0 ? `${days} d ${hours % 24} h` : `${days} d`;
}

function tenths(value: number): number {
  return Math.round(value * 10) / 10;
}
