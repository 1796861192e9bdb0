// Converts a limit's numbers from a rule file to what algorithms use.

import { AMOUNT_MAX } from "../../base/units.ts";
import { UNIT_SECONDS, Unit, WINDOW_SECONDS_MAX } from "../domain/limit.ts";
import type { Calendar } from "./calendar.ts";

/** An amount per window of whole seconds, and the unit that people are shown. */
export interface Rate {
  readonly amount: number;
  readonly windowSeconds: number;
  readonly unit: Unit;
  /** The window in bucket keys, in seconds. 1 for tokens per second, so that an edit of the rate keeps the bucket. */
  readonly keySeconds: number;
  /** The calendar that defines the windows; absent: windows are aligned to the epoch. */
  readonly calendar?: Calendar;
}

// The units that are tried for a rate, shortest first, so that it is shown in a common unit.
const RATE_UNITS: readonly Unit[] = [Unit.second, Unit.minute, Unit.hour, Unit.day];

/**
 * Converts tokens per second, written in decimal, into a whole amount per window. The window is the first of second,
 * minute, hour and day whose amount is whole and at most AMOUNT_MAX, else the shortest number of seconds. Returns a
 * sentence that says what was expected if there isn't one. The length of the window does not change when tokens return
 * (engine/domain/limit.ts).
 */
export function rateOfDecimal(text: string): Rate | string {
  const fraction = parseDecimal(text);
  if (fraction === undefined) return "expected a number above 0, such as 10 or 0.5";
  const { numerator, denominator } = fraction;
  if (numerator <= 0n) return "expected a number above 0";
  for (const unit of RATE_UNITS) {
    const windowSeconds = UNIT_SECONDS[unit];
    const product = numerator * BigInt(windowSeconds);
    const amount = product / denominator;
    if (product % denominator === 0n && amount <= BigInt(AMOUNT_MAX))
      return { amount: Number(amount), windowSeconds, unit, keySeconds: 1 };
  }
  if (denominator > BigInt(WINDOW_SECONDS_MAX))
    return "too many decimals: no window up to a year makes it a whole number";
  const windowSeconds = Number(denominator);
  if (numerator <= BigInt(AMOUNT_MAX))
    return { amount: Number(numerator), windowSeconds, unit: Unit.unknown, keySeconds: 1 };
  return `too large: at most ${AMOUNT_MAX} tokens per ${windowSeconds} s can be counted`;
}

/** How far a rounded rate may be from the amount per unit that it was probably made of. */
const ROUNDED_SHARE_MAX = 1e-3;

/**
 * The amount per minute, hour or day that a rate in tokens per second was probably rounded from; undefined if none is
 * near.
 */
export function wholeRateNear(perSecond: number): { readonly amount: number; readonly unit: Unit } | undefined {
  for (const unit of RATE_UNITS) {
    const exact = perSecond * UNIT_SECONDS[unit];
    const amount = Math.round(exact);
    if (amount > 0 && amount <= AMOUNT_MAX && Math.abs(exact - amount) <= amount * ROUNDED_SHARE_MAX)
      return { amount, unit };
  }
  return undefined;
}

/** The same rate with the shortest window of whole seconds. */
export function reduceRate(amount: number, windowSeconds: number): { amount: number; windowSeconds: number } {
  const divisor = Number(greatestCommonDivisor(BigInt(amount), BigInt(windowSeconds)));
  return amount === 0
    ? { amount, windowSeconds }
    : { amount: amount / divisor, windowSeconds: windowSeconds / divisor };
}

/** The seconds of a window such as 30s, 5m, 12h or 7d; undefined for other text and beyond a year. */
export function parseWindow(text: string): number | undefined {
  const parts = /^([1-9][0-9]{0,7})(s|m|h|d)$/.exec(text);
  if (parts === null) return undefined;
  const seconds = Number(parts[1]) * { s: 1, m: 60, h: 3_600, d: 86_400 }[parts[2] as "s" | "m" | "h" | "d"];
  return seconds <= WINDOW_SECONDS_MAX ? seconds : undefined;
}

/** The unit of this length, or Unit.unknown. */
export function unitOfWindow(windowSeconds: number): Unit {
  const unit = (UNIT_SECONDS as readonly number[]).indexOf(windowSeconds);
  return (unit < 0 ? Unit.unknown : unit) as Unit;
}

/** Tokens per second, rounded up to a whole token. */
export function tokensPerSecondUp(rate: Rate): number {
  return Math.ceil(rate.amount / rate.windowSeconds);
}

// A fraction of bigints, because doubles can't represent 0.1 exactly. The bound on the shift keeps hostile exponents
// small.
function parseDecimal(text: string): { numerator: bigint; denominator: bigint } | undefined {
  const parts = /^\+?([0-9]{0,20})(?:\.([0-9]{0,20}))?(?:[eE]([-+]?[0-9]{1,2}))?$/.exec(text.replaceAll("_", ""));
  const [, whole = "", decimals = "", exponent = "0"] = parts ?? [];
  if (parts === null || whole + decimals === "") return undefined;
  const shift = Number(exponent) - decimals.length;
  if (Math.abs(shift) > 40) return undefined;
  const digits = BigInt(whole + decimals);
  const numerator = shift > 0 ? digits * 10n ** BigInt(shift) : digits;
  const denominator = shift < 0 ? 10n ** BigInt(-shift) : 1n;
  const divisor = greatestCommonDivisor(numerator, denominator);
  return { numerator: numerator / divisor, denominator: denominator / divisor };
}

function greatestCommonDivisor(a: bigint, b: bigint): bigint {
  let [x, y] = [a, b];
  while (y > 0n) [x, y] = [y, x % y];
  return x === 0n ? 1n : x;
}
