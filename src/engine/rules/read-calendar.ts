// Reads a `window` with a calendar: its unit, its time zone, and the day on which windows begin.

import { textOf } from "../domain/request.ts";
import { CALENDAR_UNITS, type Calendar, type CalendarUnit, knownTimeZone, WEEKDAYS } from "./calendar.ts";
import { type Fields, readFields } from "./fields.ts";
import { describeSource, type ProblemLog } from "./problems.ts";
import { readText, readWhole, readWord } from "./readers.ts";
import type { MappingNode } from "./source.ts";
import { suggest } from "./suggest.ts";

const MONTHS_PER_QUARTER = 3;
const DAYS_OF_MONTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** The calendar of a window; undefined if it has mistakes, which are reported. */
export function readCalendar(window: MappingNode, log: ProblemLog): Calendar | undefined {
  const fields = readFields("calendar window", [window], log);
  const unit = CALENDAR_UNITS[readWord(fields, "calendar", CALENDAR_UNITS, log) ?? -1];
  if (fields.given("calendar") === undefined && !fields.hasRefused)
    log.error(window.at, `window: 'calendar' is missing: expected one of ${CALENDAR_UNITS.join(", ")}`);
  const timeZone = readTimeZone(fields, log);
  const start = unit === undefined ? undefined : readStart(unit, fields, log);
  if (unit === undefined || timeZone === undefined || start === undefined) return undefined;
  return { unit, timeZone, ...start };
}

function readTimeZone(fields: Fields, log: ProblemLog): string | undefined {
  const field = fields.given("time_zone");
  if (field === undefined) {
    const hint = "Add 'time_zone: Europe/Berlin', or 'time_zone: UTC'.";
    if (!fields.hasRefused) log.error(fields.at, "window: 'time_zone' is missing: there is no default", hint);
    return undefined;
  }
  const text = readText(fields, "time_zone", log);
  if (text === undefined) return undefined;
  const name = textOf(text);
  const known = knownTimeZone(name);
  if (known === name) return name;
  const message = `time_zone: expected a name of the time zone database, such as Europe/Berlin or UTC, got ${describeSource(field.value)}`;
  log.error(field.value.at, message, known === undefined ? suggestZone(name) : `Write '${known}'.`);
  return undefined;
}

function suggestZone(name: string): string | undefined {
  if (/^[-+0-9]/.test(name)) return "Name a place: it has summer time, an offset has none.";
  return suggest(name, Intl.supportedValuesOf("timeZone"));
}

type Start = Pick<Calendar, "month" | "day">;

function readStart(unit: CalendarUnit, fields: Fields, log: ProblemLog): Start | undefined {
  const field = fields.given("starts_on");
  if (field === undefined) return { month: 1, day: 1 };
  if (unit === "day") {
    log.error(field.keyAt, "'starts_on' means nothing to a day, which begins at midnight", "Leave it out.");
    return undefined;
  }
  if (unit === "week") {
    const day = readWord(fields, "starts_on", WEEKDAYS, log);
    return day === undefined ? undefined : { month: 1, day: day + 1 };
  }
  if (unit === "month") {
    const day = readWhole(fields, "starts_on", { min: 1, max: 31 }, log);
    return day === undefined ? undefined : { month: 1, day };
  }
  const [, month = 0, day = 0] = /^(\d\d)-(\d\d)$/.exec(readText(fields, "starts_on", log) ?? "")?.map(Number) ?? [];
  if (day >= 1 && day <= (DAYS_OF_MONTHS[month - 1] ?? 0)) {
    return { month: unit === "year" ? month : ((month - 1) % MONTHS_PER_QUARTER) + 1, day };
  }
  const expected = `the month and day on which a ${unit} begins, such as "04-01"`;
  log.error(field.value.at, `starts_on: expected ${expected}, got ${describeSource(field.value)}`);
  return undefined;
}
