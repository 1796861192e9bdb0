// The schedule of a soak follows from its seed alone, so that a run that failed can be made again.

import { describe, expect, test } from "vitest";
import { makeSchedule, type Stage } from "../../support/fault-schedule.ts";

const STAGE: Stage = {
  processes: 2,
  deeds: ["good rules", "bad rules", "restart", "crash", "store hangs", "store crashes", "clock steps"],
  hasStoreNetwork: true,
};
const TEN_MINUTES_MS = 600_000;

describe("a schedule", () => {
  test("is the same for the same seed, and another for another", () => {
    const schedule = makeSchedule(7, TEN_MINUTES_MS, STAGE);
    expect(makeSchedule(7, TEN_MINUTES_MS, STAGE)).toEqual(schedule);
    expect(makeSchedule(8, TEN_MINUTES_MS, STAGE)).not.toEqual(schedule);
  });

  test("of ten minutes stages every kind on every network", () => {
    const kinds = new Set(makeSchedule(1, TEN_MINUTES_MS, STAGE).map(({ where, what }) => `${where} ${what.kind}`));
    expect(kinds.size).toBe(2 * 7 + STAGE.deeds.length);
  });
});
