// Where windows of calendars begin, held against another oracle: the beginnings of days that Python's zoneinfo has found for five
// years in twenty-four zones (test/fixtures/calendars), and days counted without any library of calendars.

import { readFileSync } from "node:fs";
import fc from "fast-check";
import { expect, test } from "vitest";
import { CALENDAR_UNITS, type Calendar, calendarWindows } from "../../src/engine/rules/calendar.ts";
import { part, runs } from "../support/runs.ts";

interface ZoneDays {
  /** The second in which the first day begins. */
  readonly first: number;
  /** Days of another length than 86,400 s. */
  readonly odd: Readonly<Record<string, number>>;
}

const FIRST_MS = Date.UTC(2020, 0, 1);
const DAY_COUNT = (Date.UTC(2025, 0, 1) - FIRST_MS) / 86_400_000;
const ZONES = JSON.parse(
  readFileSync(new URL("../fixtures/calendars/zones.json", import.meta.url), "utf8"),
) as Readonly<Record<string, ZoneDays>>;

const NAMES = Object.keys(ZONES);
const DATES = Array.from({ length: DAY_COUNT }, (_, i) => new Date(FIRST_MS + i * 86_400_000));

/** The seconds in which the days of a zone begin, in the order of DATES. */
function startsOf(name: string): readonly number[] {
  const { first = 0, odd = {} } = ZONES[name] ?? {};
  let at = first;
  return DATES.map((date) => {
    const start = at;
    at += odd[date.toISOString().slice(0, 10)] ?? 86_400;
    return start;
  });
}

const STARTS = new Map(NAMES.map((name) => [name, startsOf(name)]));

/** True if a window of the calendar begins on that date. */
function begins({ unit, month, day }: Calendar, date: Date): boolean {
  if (unit === "day") return true;
  if (unit === "week") return (date.getUTCDay() + 6) % 7 === day - 1;
  const lastDay = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  if (date.getUTCDate() !== Math.min(day, lastDay)) return false;
  if (unit === "month") return true;
  return unit === "year" ? date.getUTCMonth() === month - 1 : date.getUTCMonth() % 3 === month - 1;
}

const CALENDAR: fc.Arbitrary<Calendar> = fc
  .record({
    unit: fc.constantFrom(...CALENDAR_UNITS),
    timeZone: fc.constantFrom(...NAMES),
    month: fc.integer({ min: 1, max: 12 }),
    day: fc.oneof(fc.integer({ min: 1, max: 31 }), fc.constantFrom(29, 30, 31)),
  })
  .map(({ unit, timeZone, month, day }) => ({
    unit,
    timeZone,
    month: unit === "year" ? month : unit === "quarter" ? ((month - 1) % 3) + 1 : 1,
    day: unit === "day" ? 1 : unit === "week" ? ((day - 1) % 7) + 1 : day,
  }));

/** All edges of the calendar in the five years, in seconds. */
function edgesOf(calendar: Calendar): readonly number[] {
  const starts = STARTS.get(calendar.timeZone) ?? [];
  return starts.filter((_, i) => begins(calendar, DATES[i] as Date));
}

// Promise(calendar): Windows begin and end where an independent time zone library says, in 24 zones over five years.
test("windows begin and end where an oracle says, whatever zone, unit and start", () => {
  let seen = 0;
  fc.assert(
    fc.property(CALENDAR, fc.array(fc.nat(), { minLength: 1, maxLength: 8 }), fc.nat(), (calendar, picks, offset) => {
      const edges = edgesOf(calendar);
      const windows = calendarWindows(calendar);
      for (const pick of picks) {
        const at = pick % Math.max(1, edges.length - 2);
        const [start, end, nextEnd] = edges.slice(at, at + 3);
        if (start === undefined || end === undefined || nextEnd === undefined) continue;
        // At its first microsecond, at its last, and at any other.
        const lengthUs = (end - start) * 1e6;
        for (const us of [0, lengthUs - 1, (offset * 7_919_993) % lengthUs]) {
          windows.turnTo(start * 1e6 + us);
          const { startUs, endUs, nextEndUs } = windows;
          expect([startUs, endUs, nextEndUs]).toEqual([start * 1e6, end * 1e6, nextEnd * 1e6]);
          seen++;
        }
      }
    }),
    { numRuns: runs(1_000) },
  );
  expect(seen).toBeGreaterThan(100);
});

test.each(part(NAMES))("each zone %s: every day of five years", (timeZone) => {
  const starts = STARTS.get(timeZone) ?? [];
  const windows = calendarWindows({ unit: "day", timeZone, month: 1, day: 1 });
  const found: number[] = [];
  for (let at = starts[0] ?? 0; at < (starts.at(-1) ?? 0); at = windows.endUs / 1e6) {
    windows.turnTo(at * 1e6);
    found.push(windows.startUs / 1e6);
  }
  expect(found).toEqual(starts.slice(0, -1));
});

const utc = (us: number) => new Date(us / 1000).toISOString();
const edgesAt = (calendar: Calendar, at: string) => {
  const windows = calendarWindows(calendar);
  windows.turnTo(Date.parse(at) * 1000);
  return [windows.startUs, windows.endUs, windows.nextEndUs].map(utc);
};

test("a day that a zone skipped is none: Samoa crossed the date line", () => {
  const day: Calendar = { unit: "day", timeZone: "Pacific/Apia", month: 1, day: 1 };
  const edges = ["2011-12-29T10:00:00.000Z", "2011-12-30T10:00:00.000Z", "2011-12-31T10:00:00.000Z"];
  expect(edgesAt(day, "2011-12-30T09:59:59Z")).toEqual(edges);
  expect(edgesAt(day, "2011-12-30T10:00:00Z")).toEqual([...edges.slice(1), "2012-01-01T10:00:00.000Z"]);
});
