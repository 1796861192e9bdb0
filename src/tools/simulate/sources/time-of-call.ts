// Reads times of logs as microseconds since the Unix epoch.

import { MICROS_PER_MILLI, MICROS_PER_SECOND, TIME_US_MAX } from "../../../base/units.ts";

/**
 * Numbers below the first bound are seconds, below the second milliseconds, else microseconds: all from 1973 to 5138.
 */
const SECONDS_BELOW = 1e11;
const MILLIS_BELOW = 1e14;

/** A date and a time with up to nine decimals of a second, and a zone; UTC without one. */
const ISO = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9}))? ?(Z|UTC|[+-]\d\d:?\d\d|)$/;
/** What Apache and nginx write: 31/Jan/2026:10:00:00 +0200. */
const COMMON_LOG = /^\[?(\d\d)\/([A-Z][a-z]{2})\/(\d{4}):(\d\d:\d\d:\d\d) ([+-]\d{4})\]?$/;
const NUMBER = /^\d{1,16}(?:\.\d{1,9})?$/;

/**
 * Reads `2026-01-31T10:00:00.123456Z` (or with `+02:00`, or a blank for the T), `31/Jan/2026:10:00:00 +0200`, or a
 * number of seconds, milliseconds or microseconds since 1970, distinguished by their size. Undefined for anything else,
 * and outside of 1970 to 2199.
 */
export function timeOfCall(value: unknown): number | undefined {
  if (typeof value === "number") return fromNumber(value);
  if (typeof value !== "string") return undefined;
  if (NUMBER.test(value)) return fromNumber(Number(value));
  const iso = ISO.exec(value);
  if (iso !== null) {
    const [, date = "", time = "", fraction = "", zone = ""] = iso;
    const ms = Date.parse(`${date}T${time}${zone === "" || zone === "UTC" ? "Z" : zone}`);
    return withinBounds(ms * MICROS_PER_MILLI + Number(fraction.slice(0, 6).padEnd(6, "0")));
  }
  const common = COMMON_LOG.exec(value);
  if (common === null) return undefined;
  const [, day, month, year, time, zone] = common;
  return withinBounds(Date.parse(`${day} ${month} ${year} ${time} ${zone}`) * MICROS_PER_MILLI);
}

function fromNumber(value: number): number | undefined {
  const factor = value < SECONDS_BELOW ? MICROS_PER_SECOND : value < MILLIS_BELOW ? MICROS_PER_MILLI : 1;
  return withinBounds(Math.round(value * factor));
}

function withinBounds(us: number): number | undefined {
  return us >= 0 && us <= TIME_US_MAX ? us : undefined;
}
