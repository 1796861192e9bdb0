// Calls that passed without a decision, by cause, within the last hour and day.

import { expect, test } from "vitest";
import { UndecidedCalls } from "../../../../src/operate/telemetry/undecided-calls.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

const HOUR = 3_600;

function watched() {
  const clock = new ManualClock();
  const undecided = new UndecidedCalls();
  const counts = { timeout: 0, overload: 0 };
  const look = (limits: readonly string[] = []) => undecided.look(Object.entries(counts), limits, clock.nowUs());
  look();
  return { clock, counts, look, undecided, list: () => undecided.list(clock.nowUs()) };
}

test("calls count for an hour and a day, with the first and the last of the day", () => {
  const { clock, counts, look, list } = watched();
  expect(list()).toEqual([]);
  counts.timeout += 3;
  look();
  clock.advanceSeconds(30);
  counts.timeout += 4;
  look();
  const first = { cause: "timeout", first_at: "2026-01-01T00:00:00.000Z" };
  expect(list()).toEqual([{ ...first, last_hour: 7, last_day: 7, last_at: "2026-01-01T00:00:30.000Z" }]);
  clock.advanceSeconds(HOUR);
  counts.timeout += 1;
  look();
  expect(list()).toEqual([{ ...first, last_hour: 1, last_day: 8, last_at: "2026-01-01T01:00:30.000Z" }]);
  clock.advanceSeconds(23 * HOUR);
  look();
  expect(list()).toMatchObject([{ last_hour: 0, last_day: 1, first_at: "2026-01-01T01:00:30.000Z" }]);
  clock.advanceSeconds(HOUR);
  expect(list()).toEqual([]);
});

test("the cause with most calls comes first", () => {
  const { counts, look, list } = watched();
  Object.assign(counts, { timeout: 6, overload: 9 });
  look();
  expect(list().map(({ cause }) => cause)).toEqual(["overload", "timeout"]);
});

test("limits are remembered for a day, of many the first", () => {
  const { clock, look, undecided } = watched();
  look(["edge/a"]);
  clock.advanceSeconds(23 * HOUR);
  look(Array.from({ length: 200 }, (_, i) => `edge/${i}`));
  expect(undecided.limits()).toHaveLength(100);
  expect(undecided.limits().slice(0, 2)).toEqual(["edge/a", "edge/0"]);
  clock.advanceSeconds(2 * HOUR);
  look();
  expect(undecided.limits()).not.toContain("edge/a");
});
