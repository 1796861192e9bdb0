// The memory store under a host whose clock is set, forward and back: times of day follow, and nothing is granted twice.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ClockShift, DayClock, SystemClock } from "../../src/base/clock.ts";
import { CalendarWindows } from "../../src/engine/domain/calendar-windows.ts";
import { Algorithm, type Limit } from "../../src/engine/domain/limit.ts";
import { TakeGroup } from "../../src/engine/domain/take.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { fillGroup, SECOND_US, START_US, takeOf } from "../contract/store-harness.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";

const AMOUNT = 10;
const HOUR_US = 3_600 * SECOND_US;
const DAY_US = 24 * HOUR_US;

/** A store whose clock is moved by hand, with one bucket of a limit. */
class Host {
  readonly clock = new ManualClock(START_US);
  readonly day = new DayClock(this.clock);
  readonly #store = new MemoryStore({ clock: this.clock, bucketsMax: 200 });
  readonly #limit: Limit;

  constructor(limit: Limit) {
    this.#limit = limit;
    // As many as a sweep passes at once, so that each one passes all.
    for (let i = 0; i < 100; i++) this.ask(1, `other ${i}`);
  }

  ask(cost: number, identity = "asked") {
    this.#store.sweep();
    const group = new TakeGroup();
    fillGroup(group, [{ limit: this.#limit, cost, identity }], "", false);
    this.#store.take(group);
    return takeOf(group, 0);
  }
}

const days = () =>
  new CalendarWindows("calendar day", (atUs) => {
    const startUs = Math.floor(atUs / DAY_US) * DAY_US;
    return { startUs, endUs: startUs + DAY_US, nextEndUs: startUs + 2 * DAY_US };
  });
const hourly = () => makeLimit({ algorithm: Algorithm.fixedWindow, amount: AMOUNT, windowSeconds: 3_600 });
const daily = () =>
  makeLimit({ algorithm: Algorithm.calendarWindow, amount: AMOUNT, windowSeconds: 86_400, calendar: days() });

/** Calls, each some time after the one before, whose host's clock may have been set just before. */
const histories = fc.array(
  fc.record({
    afterSeconds: fc.oneof(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 3_000 })),
    setTo: fc.oneof(
      { weight: 3, arbitrary: fc.constant(undefined) },
      { weight: 1, arbitrary: fc.integer({ min: -7_300, max: 7_300 }) },
      { weight: 1, arbitrary: fc.integer({ min: -90_000, max: 90_000 }) },
      { weight: 1, arbitrary: fc.constantFrom(-7_200, -1, 0, 1, 3_600, 86_400) },
    ),
    cost: fc.integer({ min: 1, max: 6 }),
  }),
  { minLength: 10, maxLength: 50 },
);

describe.each([
  { name: "a fixed window", limitOf: hourly, lengthUs: HOUR_US },
  { name: "a calendar window", limitOf: daily, lengthUs: DAY_US },
])("$name", ({ limitOf, lengthUs }) => {
  // Promise(limits): If the host's clock is set, the memory store's windows follow within a second, and nothing is granted twice.
  test("goes on with its count in the window that holds the new time of day", () => {
    let moved = 0;
    fc.assert(
      fc.property(histories, (history) => {
        const host = new Host(limitOf());
        let used = 0;
        // When the window ends that the count belongs to, by the time that passes.
        let endsUs = 0;
        for (const { afterSeconds, setTo, cost } of history) {
          host.clock.advanceSeconds(afterSeconds);
          if (setTo !== undefined) host.clock.setHostAhead(setTo);
          const nowUs = host.clock.nowUs();
          const dayUs = host.day.nowUs();
          const startUs = nowUs - (dayUs % lengthUs);
          if (used > 0 && endsUs > startUs && endsUs !== startUs + lengthUs) moved++;
          if (endsUs <= startUs) used = 0;
          endsUs = startUs + lengthUs;
          const { paid, remaining, resetUs } = host.ask(cost);
          expect(paid).toBe(used + cost <= AMOUNT);
          if (paid) used += cost;
          expect({ remaining, resetUs }).toEqual({ remaining: AMOUNT - used, resetUs: used > 0 ? endsUs - nowUs : 0 });
        }
      }),
      { numRuns: runs(300) },
    );
    expect(moved).toBeGreaterThan(runs(300));
  });
});

test.each(["tokenBucket", "slidingWindow", "slidingLog"] as const)("a %s counts the time that passes", (name) => {
  const limit = makeLimit({ algorithm: Algorithm[name], amount: AMOUNT, burst: AMOUNT, windowSeconds: 3_600 });
  fc.assert(
    fc.property(histories, (history) => {
      const [set, unset] = [new Host(limit), new Host(limit)];
      for (const { afterSeconds, setTo, cost } of history) {
        for (const host of [set, unset]) host.clock.advanceSeconds(afterSeconds);
        if (setTo !== undefined) set.clock.setHostAhead(setTo);
        const answers = [set, unset].map((host) => {
          const { paid, remaining, resetUs, waitUs } = host.ask(cost);
          return { paid, remaining, resetUs, waitUs };
        });
        expect(answers[0]).toEqual(answers[1]);
      }
    }),
    { numRuns: runs(100) },
  );
});

test.each([
  { aheadUs: [0.9e6, -0.9e6], shifts: [0, 0] },
  { aheadUs: [7_200.4e6, 7_200.9e6, 7_201.5e6], shifts: [7_200e6, 7_200e6, 7_202e6] },
  { aheadUs: [-1.2e6, 0.1e6], shifts: [-1e6, 0] },
])("a shift follows by whole seconds, and not what is less than one: $aheadUs", ({ aheadUs, shifts }) => {
  const shift = new ClockShift();
  const seen = aheadUs.map((us) => {
    shift.follow(us, START_US);
    return shift.us;
  });
  expect(seen).toEqual(shifts);
});

test("a clock of the system has no shift as long as nobody sets the host's", () => {
  const clock = new SystemClock();
  expect(Math.abs(new DayClock(clock).nowUs() - Date.now() * 1_000)).toBeLessThan(SECOND_US);
  expect(clock.shift.changedAtUs).toBe(0);
});
