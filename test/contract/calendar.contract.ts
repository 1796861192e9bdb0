// What windows of calendars promise at their edges, and where processes reckon edges otherwise. Every store runs this.

import { beforeEach, describe, expect, test } from "vitest";
import { CalendarWindows } from "../../src/engine/domain/calendar-windows.ts";
import { Algorithm, type Limit } from "../../src/engine/domain/limit.ts";
import { Mode, Outcome } from "../../src/engine/domain/take.ts";
import { limitKeySuffix } from "../../src/engine/rules/bucket-key.ts";
import { type Calendar, calendarKey, calendarWindows } from "../../src/engine/rules/calendar.ts";
import { makeLimit } from "../support/builders.ts";
import {
  advance,
  ask,
  askOne,
  type HarnessFactory,
  look,
  SECOND_US,
  START_US,
  type StoreHarness,
} from "./store-harness.ts";

const HOUR_US = 3_600 * SECOND_US;
const DAY_US = 24 * HOUR_US;

/** Ten hits in each window of the calendar, by this machine's zone data. */
function tenPer(calendar: Calendar, amount = 10): Limit {
  const keySuffix = limitKeySuffix(Algorithm.calendarWindow, calendarKey(calendar), "");
  return makeLimit({
    algorithm: Algorithm.calendarWindow,
    amount,
    calendar: calendarWindows(calendar),
    keySuffix,
  });
}

/** Ten hits a day by a process for which days begin later by so much, or earlier. */
function tenPerDay(laterUs: number): Limit {
  const calendar = new CalendarWindows("day", (atUs) => {
    const startUs = Math.floor((atUs - laterUs) / DAY_US) * DAY_US + laterUs;
    return { startUs, endUs: startUs + DAY_US, nextEndUs: startUs + 2 * DAY_US };
  });
  return makeLimit({ algorithm: Algorithm.calendarWindow, windowSeconds: 86_400, calendar });
}

/** Ten hits in one window, which ends then; the one after is that long. */
function tenUntil(endUs: number, nextUs = 30 * DAY_US): Limit {
  const edges = { startUs: START_US, endUs, nextEndUs: endUs + nextUs };
  const calendar = new CalendarWindows("until then", () => edges);
  return makeLimit({ algorithm: Algorithm.calendarWindow, windowSeconds: 86_400, calendar });
}

const EDGES: readonly { name: string; calendar: Calendar; start: string; end: string }[] = [
  {
    name: "a day of 23 hours",
    calendar: { unit: "day", timeZone: "Europe/Berlin", month: 1, day: 1 },
    start: "2026-03-28T23:00:00Z",
    end: "2026-03-29T22:00:00Z",
  },
  {
    name: "a month from a 31st that is missing",
    calendar: { unit: "month", timeZone: "UTC", month: 1, day: 31 },
    start: "2026-02-28T00:00:00Z",
    end: "2026-03-31T00:00:00Z",
  },
];

/** Runs the contract of calendar windows against a store. */
export function describeCalendarContract(name: string, factory: HarnessFactory): void {
  describe(`calendar windows of the ${name}`, () => {
    let harness: StoreHarness;
    beforeEach(async () => {
      harness = await factory();
    });

    // Of which calendar an edge is, a store doesn't know: test/property/calendar-edges.test.ts has the others.
    // Promise(calendar): Days of 23 and 25 hours, short months and fiscal years end to the microsecond on every store.
    test.each(EDGES)("begin and end to the microsecond: $name", async ({ calendar, start, end }) => {
      const limit = tenPer(calendar);
      const [startUs, endUs] = [Date.parse(start) * 1000, Date.parse(end) * 1000];
      harness.setUs(startUs - 1);
      expect(await askOne(harness, { limit, cost: 10 })).toMatchObject({ paid: true, resetUs: 1 });
      expect(await askOne(harness, { limit })).toMatchObject({ outcome: Outcome.over, waitUs: 1 });
      harness.setUs(startUs);
      expect(await askOne(harness, { limit, cost: 10 })).toMatchObject({ paid: true, resetUs: endUs - startUs });
      harness.setUs(endUs - 1);
      expect(await askOne(harness, { limit })).toMatchObject({ outcome: Outcome.over, waitUs: 1, remaining: 0 });
      harness.setUs(endUs);
      expect(await askOne(harness, { limit })).toMatchObject({ paid: true, remaining: 9 });
    });

    // Promise(calendar): An edited amount keeps what was spent.
    test("an edited amount keeps what was spent", async () => {
      const calendar: Calendar = { unit: "month", timeZone: "Europe/Berlin", month: 1, day: 15 };
      await askOne(harness, { limit: tenPer(calendar), cost: 7 });
      expect(await askOne(harness, { limit: tenPer(calendar, 20) })).toMatchObject({ paid: true, remaining: 12 });
      expect(await askOne(harness, { limit: tenPer(calendar, 8) })).toMatchObject({ outcome: Outcome.over });
    });

    // Promise(calendar): Rolling updates and other zone data don't move the window that the store holds.
    test.each([
      { name: "later", laterUs: HOUR_US },
      { name: "earlier", laterUs: -HOUR_US },
    ])("the window that the store holds wins over a process whose days begin $name", async ({ laterUs }) => {
      const [first, other] = [tenPerDay(0), tenPerDay(laterUs)];
      advance(harness, 12 * HOUR_US);
      await askOne(harness, { limit: first, cost: 6 });
      expect(await askOne(harness, { limit: other, cost: 4 })).toMatchObject({ paid: true, resetUs: 12 * HOUR_US });
      advance(harness, 12 * HOUR_US - 1);
      expect(await askOne(harness, { limit: other })).toMatchObject({ outcome: Outcome.over, waitUs: 1 });
      expect(await askOne(harness, { limit: first })).toMatchObject({ outcome: Outcome.over, waitUs: 1 });
      advance(harness, 1);
      const endUs = laterUs > 0 ? HOUR_US : DAY_US + laterUs;
      expect(await askOne(harness, { limit: other })).toMatchObject({ paid: true, remaining: 9, resetUs: endUs });
      expect(await askOne(harness, { limit: first })).toMatchObject({ paid: true, remaining: 8, resetUs: endUs });
    });

    // Promise(calendar): Rolling updates and other zone data don't move the window that the store holds.
    test("a window lives through a new zone database: who restarts with another end goes on in it", async () => {
      const [old, renewed] = [tenUntil(START_US + 30 * DAY_US), tenUntil(START_US + 30 * DAY_US - HOUR_US)];
      for (let i = 0; i < 10; i++) {
        advance(harness, 2 * DAY_US);
        const { remaining, resetUs } = await askOne(harness, { limit: i % 2 === 0 ? old : renewed });
        expect([remaining, harness.nowUs() + resetUs]).toEqual([9 - i, START_US + 30 * DAY_US]);
      }
      expect(await askOne(harness, { limit: renewed })).toMatchObject({ outcome: Outcome.over });
    });

    // Promise(calendar): A window end that makes no sense blocks nobody for long.
    test.each([
      { name: "26 hours is believed", laterUs: 26 * HOUR_US, isBelieved: true },
      { name: "26 hours and a second is not", laterUs: 26 * HOUR_US + SECOND_US, isBelieved: false },
    ])("an end that is later by $name", async ({ laterUs, isBelieved }) => {
      const [own, other] = [tenUntil(START_US + DAY_US), tenUntil(START_US + DAY_US + laterUs)];
      await askOne(harness, { limit: other, cost: 4 });
      const late = await ask(harness, [{ limit: other, cost: 3 }]);
      advance(harness, 1);
      const endUs = (isBelieved ? DAY_US + laterUs : DAY_US) - 1;
      // What was counted stays, and the new end is kept, though nobody has paid.
      expect(await look(harness, own)).toMatchObject({ remaining: 3, resetUs: endUs });
      expect(await look(harness, other)).toMatchObject({ remaining: 3, resetUs: endUs });
      // And so does the right to have it back.
      await harness.giveBack(late);
      expect(await look(harness, own)).toMatchObject({ remaining: 6, resetUs: endUs });
    });

    test("a clock that is far from its process's goes on in windows of the nearest length", async () => {
      // As a store whose server is days ahead, or behind, of who asks.
      for (const days of [-3, 5]) {
        harness.setUs(START_US + days * DAY_US + 6 * HOUR_US);
        const stuck = tenUntil(START_US + DAY_US, DAY_US);
        const identity = `far${days}`;
        expect(await askOne(harness, { limit: stuck, identity })).toMatchObject({ paid: true, resetUs: 18 * HOUR_US });
        advance(harness, 18 * HOUR_US);
        expect(await askOne(harness, { limit: stuck, identity, mode: Mode.peek })).toMatchObject({ remaining: 10 });
      }
    });
  });
}
