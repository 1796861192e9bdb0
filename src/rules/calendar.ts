// Calendars of windows: which days begin one, and at what moment a day begins in a time zone. The time zones are those of the
// process's Node.js; Temporal says when a day of a zone begins, also one whose midnight is skipped or comes twice.

import { Temporal } from "temporal-polyfill";
import { CalendarWindows, type WindowEdges } from "../core/calendar-windows.ts";
import { UNIT_SECONDS, Unit } from "../core/limit.ts";
import { MICROS_PER_MILLI } from "../core/units.ts";

/** Names of the calendars' windows in rule files. */
export const CALENDAR_UNITS = ["day", "week", "month", "quarter", "year"] as const;
export type CalendarUnit = (typeof CALENDAR_UNITS)[number];

/** Days of the week in rule files, from the first on. */
export const WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"] as const;

/** Which days begin a window, and where. */
export interface Calendar {
  readonly unit: CalendarUnit;
  /** A name of the time zone database, as it is written there. */
  readonly timeZone: string;
  /** Of a year its month, of a quarter the month of its first one, 1 to 3; of the others 1. */
  readonly month: number;
  /** Of a week its day, 1 for Monday; of a month and longer its day, 1 to 31: where a month has fewer, its last. Of a day 1. */
  readonly day: number;
}

/** The unit in which callers are told of it, and how long its windows are unless the calendar has a say. */
export const SHOWN: Readonly<Record<CalendarUnit, { readonly unit: Unit; readonly seconds: number }>> = {
  day: { unit: Unit.day, seconds: UNIT_SECONDS[Unit.day] },
  week: { unit: Unit.week, seconds: UNIT_SECONDS[Unit.week] },
  month: { unit: Unit.month, seconds: UNIT_SECONDS[Unit.month] },
  quarter: { unit: Unit.unknown, seconds: 91 * UNIT_SECONDS[Unit.day] },
  year: { unit: Unit.year, seconds: UNIT_SECONDS[Unit.year] },
};

/** What stands for the calendar in bucket keys: the same for the same calendar, and another for each other one. */
export function calendarKey(calendar: Calendar): string {
  const start = startOf(calendar);
  return `${calendar.timeZone},${calendar.unit}${start === "" ? "" : `,${start}`}`;
}

/** How a rule file writes when windows begin; empty for a day. */
function startOf({ unit, month, day }: Calendar): string {
  if (unit === "day") return "";
  if (unit === "week") return WEEKDAYS[day - 1] ?? "";
  if (unit === "month") return String(day);
  return `${String(month).padStart(2, "0")}-${String(day).padStart(2, "0")}`;
}

function wordsOf(calendar: Calendar): string {
  const start = startOf(calendar);
  const from = calendar.unit === "month" ? `day ${start}` : start;
  return `calendar ${calendar.unit}${from === "" ? "" : ` from ${from}`} in ${calendar.timeZone}`;
}

/** The name that the time zone has in the database; undefined if there is none. */
export function knownTimeZone(name: string): string | undefined {
  if (!/^[A-Za-z]/.test(name)) return undefined;
  try {
    return new Temporal.ZonedDateTime(0n, name).timeZoneId;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** The windows of a calendar, by this process's time zones. */
export function calendarWindows(calendar: Calendar): CalendarWindows {
  return new CalendarWindows(wordsOf(calendar), (atUs) => edgesAround(calendar, atUs));
}

// Days skipped by a zone that crossed the date line begin when the next one does: a window of no length is none.
function edgesAround(calendar: Calendar, atUs: number): WindowEdges {
  const startOfWindow = (number: number) => startUs(calendar, number);
  let number = windowOf(calendar, atUs);
  while (startOfWindow(number) > atUs) number--;
  while (startOfWindow(number + 1) <= atUs) number++;
  const endUs = startOfWindow(number + 1);
  let next = number + 2;
  while (startOfWindow(next) <= endUs) next++;
  return { startUs: startOfWindow(number), endUs, nextEndUs: startOfWindow(next) };
}

const MONTHS: Readonly<Record<"month" | "quarter" | "year", number>> = { month: 1, quarter: 3, year: 12 };
const DAYS_PER_WEEK = 7;
/** A Monday. */
const FIRST_DAY = "1970-01-05";

/** Number of the window that holds the moment, or of a neighbour. */
function windowOf({ unit, timeZone, month, day }: Calendar, atUs: number): number {
  const date = Temporal.Instant.fromEpochMilliseconds(Math.floor(atUs / MICROS_PER_MILLI))
    .toZonedDateTimeISO(timeZone)
    .toPlainDate();
  if (unit === "day" || unit === "week") {
    const days = Temporal.PlainDate.from(FIRST_DAY).until(date, { largestUnit: "day" }).days;
    return unit === "day" ? days : Math.floor((days - (day - 1)) / DAYS_PER_WEEK);
  }
  return Math.floor((date.year * 12 + date.month - month) / MONTHS[unit]);
}

/** When the window of that number begins. */
function startUs(calendar: Calendar, number: number): number {
  return firstDay(calendar, number).toZonedDateTime(calendar.timeZone).epochMilliseconds * MICROS_PER_MILLI;
}

function firstDay({ unit, month, day }: Calendar, number: number): Temporal.PlainDate {
  if (unit === "day" || unit === "week") {
    const days = unit === "day" ? number : number * DAYS_PER_WEEK + day - 1;
    return Temporal.PlainDate.from(FIRST_DAY).add({ days });
  }
  const months = number * MONTHS[unit] + month - 1;
  return Temporal.PlainDate.from({ year: Math.floor(months / 12), month: (months % 12) + 1, day });
}
