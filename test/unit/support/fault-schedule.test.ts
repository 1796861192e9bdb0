// The schedule of a soak follows from its seed alone, so that a run that failed can be made again.

import { describe, expect, test } from "vitest";
import { faultLine, makeSchedule, type Stage } from "../../support/fault-schedule.ts";

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

  test("has its faults one after another, with calm between them and at the end", () => {
    const schedule = makeSchedule(7, TEN_MINUTES_MS, STAGE);
    expect(schedule.length).toBeGreaterThan(90);
    schedule.reduce((endMs, { atMs, durationMs }) => {
      expect(atMs - endMs).toBeGreaterThanOrEqual(1_500);
      return atMs + durationMs;
    }, 0);
    const last = schedule.at(-1);
    expect((last?.atMs ?? 0) + (last?.durationMs ?? 0)).toBeLessThanOrEqual(TEN_MINUTES_MS - 8_000);
  });

  test("of ten minutes stages every kind on every network", () => {
    const kinds = new Set(makeSchedule(1, TEN_MINUTES_MS, STAGE).map(({ where, what }) => `${where} ${what.kind}`));
    expect(kinds.size).toBe(2 * 7 + STAGE.deeds.length);
  });

  test("leaves out what can't be staged", () => {
    const schedule = makeSchedule(1, TEN_MINUTES_MS, { processes: 2, deeds: ["crash"], hasStoreNetwork: false });
    expect(new Set(schedule.map(({ where }) => where))).toEqual(new Set(["clients", undefined]));
  });

  test("is told in lines", () => {
    const what = { kind: "delay", ms: 5, jitterMs: 9 } as const;
    expect(faultLine({ atMs: 1_540, durationMs: 700, where: "store", what })).toBe(
      "   1.5 s  delay between service and store (ms 5, jitterMs 9) for 700 ms",
    );
  });
});
