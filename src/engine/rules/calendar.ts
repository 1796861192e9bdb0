// Calendar windows: on which days they begin, when these days begin in the time zone, and how a rule file writes them.
// Time zone data is Node.js's own. Temporal gives the start of a day, even if its midnight is skipped or comes twice.

import type * as Polyfill from "temporal-polyfill";
import { loadPackage } from "../../base/host.ts";
import { unlessThrown } from "../../base/thrown.ts";
import { MICROS_PER_MILLI } from "../../base/units.ts";
import { CalendarWindows, type WindowEdges } from "../domain/calendar-windows.ts";
import { UNIT_SECONDS, Unit } from "../domain/limit.ts";
import { textOf } from "../domain/request.ts";
import { Fields } from "./fields.ts";
import type { ProblemLog } from "./problems.ts";
import type { MappingNode } from "./source.ts";
import { suggestionFor } from "./suggest.ts";

let loaded: typeof Polyfill.Temporal | undefined;

/** Loaded with the first rule that has a calendar window, because most processes have none. */
function temporal(): typeof Polyfill.Temporal {
  loaded ??= (loadPackage("temporal-polyfill") as typeof Polyfill).Temporal;
  return loaded;
}

/** Units of calendar windows, as rule files name them. */
export const CALENDAR_UNITS = ["day", "week", "month", "quarter", "year"] as const;
type CalendarUnit = (typeof CALENDAR_UNITS)[number];

/** Days of the week, as rule files name them. */
const WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"] as const;

/** On which days windows begin, and in which time zone. */
export interface Calendar {
  readonly unit: CalendarUnit;
  /** A name of the IANA time zone database, in its exact spelling. */
  readonly timeZone: string;
  /** Year: the month, 1 to 12. Quarter: the month in which the first quarter begins, 1 to 3. Others: 1. */
  readonly month: number;
  /**
   * Week: the day, 1 for Monday. Month and longer: the day of the month, 1 to 31, or the last one if the month is
   * shorter. Day: 1.
   */
  readonly day: number;
}

/** By calendar unit: the unit that callers are shown, and the usual length of a window in seconds. */
export const USUAL_WINDOWS: Readonly<Record<CalendarUnit, { readonly unit: Unit; readonly seconds: number }>> = {
  day: { unit: Unit.day, seconds: UNIT_SECONDS[Unit.day] },
  week: { unit: Unit.week, seconds: UNIT_SECONDS[Unit.week] },
  month: { unit: Unit.month, seconds: UNIT_SECONDS[Unit.month] },
  quarter: { unit: Unit.unknown, seconds: 91 * UNIT_SECONDS[Unit.day] },
  year: { unit: Unit.year, seconds: UNIT_SECONDS[Unit.year] },
};

/** The calendar in bucket keys: equal for equal calendars, different for different ones. */
export function calendarKey(calendar: Calendar): string {
  const start = startOf(calendar);
  return `${calendar.timeZone},${calendar.unit}${start === "" ? "" : `,${start}`}`;
}

/** The value of `starts_on` in a rule file; empty for a day. */
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

/** The exact spelling of a time zone's name; undefined if there is no such time zone. */
function knownTimeZone(name: string): string | undefined {
  if (!/^[A-Za-z]/.test(name)) return undefined;
  return unlessThrown(RangeError, () => new (temporal().ZonedDateTime)(0n, name).timeZoneId);
}

/** Calendar windows, by this process's time zone data. */
export function calendarWindows(calendar: Calendar): CalendarWindows {
  return new CalendarWindows(wordsOf(calendar), (atUs) => edgesAround(calendar, atUs));
}

// When a zone crosses the date line, a skipped day begins at the same moment as the next one. Such empty windows are
// skipped.
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

/** Number of the window that contains the moment, or of a neighbouring window. */
function windowOf({ unit, timeZone, month, day }: Calendar, atUs: number): number {
  const date = temporal()
    .Instant.fromEpochMilliseconds(Math.floor(atUs / MICROS_PER_MILLI))
    .toZonedDateTimeISO(timeZone)
    .toPlainDate();
  if (unit === "day" || unit === "week") {
    const days = temporal().PlainDate.from(FIRST_DAY).until(date, { largestUnit: "day" }).days;
    return unit === "day" ? days : Math.floor((days - (day - 1)) / DAYS_PER_WEEK);
  }
  return Math.floor((date.year * 12 + date.month - month) / MONTHS[unit]);
}

/** Start of the window with that number, in microseconds since the epoch. */
function startUs(calendar: Calendar, number: number): number {
  return firstDay(calendar, number).toZonedDateTime(calendar.timeZone).epochMilliseconds * MICROS_PER_MILLI;
}

function firstDay({ unit, month, day }: Calendar, number: number): Polyfill.Temporal.PlainDate {
  if (unit === "day" || unit === "week") {
    const days = unit === "day" ? number : number * DAYS_PER_WEEK + day - 1;
    return temporal().PlainDate.from(FIRST_DAY).add({ days });
  }
  const months = number * MONTHS[unit] + month - 1;
  return temporal().PlainDate.from({ year: Math.floor(months / 12), month: (months % 12) + 1, day });
}

const MONTHS_PER_QUARTER = 3;
const DAYS_OF_MONTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** The calendar of a window; undefined if it has mistakes, which are reported. */
export function readCalendar(window: MappingNode, log: ProblemLog): Calendar | undefined {
  const fields = new Fields("calendar window", [window], log);
  const unit = CALENDAR_UNITS[fields.word("calendar", CALENDAR_UNITS) ?? -1];
  if (fields.given("calendar") === undefined)
    fields.missing(`window: 'calendar' is missing: expected one of ${CALENDAR_UNITS.join(", ")}`);
  const timeZone = readTimeZone(fields);
  const start = unit === undefined ? undefined : readStart(unit, fields);
  if (unit === undefined || timeZone === undefined || start === undefined) return undefined;
  return { unit, timeZone, ...start };
}

function readTimeZone(fields: Fields): string | undefined {
  const field = fields.given("time_zone");
  if (field === undefined) {
    const hint = "Add 'time_zone: Europe/Berlin', or 'time_zone: UTC'.";
    return fields.missing("window: 'time_zone' is missing; it has no default", hint);
  }
  const text = fields.text("time_zone");
  if (text === undefined) return undefined;
  const name = textOf(text);
  const known = knownTimeZone(name);
  if (known === name) return name;
  const message = "time_zone: expected a name of the time zone database, such as Europe/Berlin or UTC";
  return fields.log.wrong(field.value, message, known === undefined ? suggestZone(name) : `Write '${known}'.`);
}

function suggestZone(name: string): string | undefined {
  if (/^[-+0-9]/.test(name)) return "Name a place: an offset has no daylight saving time.";
  return suggestionFor(name, Intl.supportedValuesOf("timeZone"));
}

function readStart(unit: CalendarUnit, fields: Fields): Pick<Calendar, "month" | "day"> | undefined {
  const field = fields.given("starts_on");
  if (field === undefined) return { month: 1, day: 1 };
  if (unit === "day") {
    const message = "'starts_on' does not apply to a day, which begins at midnight";
    return fields.log.error(field.keyAt, message, "Remove it.");
  }
  if (unit === "week") {
    const weekday = fields.word("starts_on", WEEKDAYS);
    return weekday === undefined ? undefined : { month: 1, day: weekday + 1 };
  }
  if (unit === "month") {
    const day = fields.whole("starts_on", 1, 31);
    return day === undefined ? undefined : { month: 1, day };
  }
  const [, month = 0, day = 0] = /^(\d\d)-(\d\d)$/.exec(fields.text("starts_on") ?? "")?.map(Number) ?? [];
  if (day >= 1 && day <= (DAYS_OF_MONTHS[month - 1] ?? 0)) {
    return { month: unit === "year" ? month : ((month - 1) % MONTHS_PER_QUARTER) + 1, day };
  }
  const message = `starts_on: expected the month and day on which a ${unit} begins, such as "04-01"`;
  return fields.log.wrong(field.value, message);
}
