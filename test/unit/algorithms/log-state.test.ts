// Entries of a sliding log: what counts, what is freed when, what merges.

import { describe, expect, test } from "vitest";
import { LOG_FINE_MAX, LOG_GRANULES } from "../../../src/algorithms/log-granules.ts";
import { LogState } from "../../../src/algorithms/log-state.ts";

/** A log with one entry of the given cost at each of the given times. */
function logOf(...entries: readonly (readonly [atUs: number, cost: number])[]): LogState {
  const log = new LogState();
  log.granuleUs = GRANULE_US;
  for (const [atUs, cost] of entries) {
    log.view(atUs, Number.NEGATIVE_INFINITY);
    log.pending = cost;
    log.commit();
  }
  return log;
}

const WINDOW_US = 1_280_000;
const GRANULE_US = WINDOW_US / LOG_GRANULES;

/** A log with as many entries of cost 1 as are kept apart, a microsecond apart from 1 on. */
function fineLog(): LogState {
  return logOf(...Array.from({ length: LOG_FINE_MAX }, (_, i) => [i + 1, 1] as const));
}

describe("log state", () => {
  test("counts entries younger than the view", () => {
    const log = logOf([10, 1], [20, 2], [30, 4]);
    log.view(35, 10);
    expect([log.count, log.total, log.newestUs]).toEqual([2, 6, 30]);
    log.view(35, 9);
    expect([log.count, log.total]).toEqual([3, 7]);
    log.view(99, 30);
    expect([log.count, log.total, log.newestUs]).toEqual([0, 0, Number.NEGATIVE_INFINITY]);
  });

  test("a view drops nothing until it is committed", () => {
    const log = logOf([10, 1], [20, 2]);
    log.view(50, 15);
    expect(log.kept).toBe(2);
    log.commit();
    expect(log.kept).toBe(1);
  });

  test("joins payments of the same time in one entry", () => {
    const log = logOf([10, 1], [10, 2]);
    expect([log.count, log.total]).toEqual([1, 3]);
  });

  test("tells whose end frees a cost", () => {
    const log = logOf([10, 3], [20, 2], [30, 4]);
    log.view(35, 0);
    log.pending = 5;
    expect([1, 3, 4, 5, 6, 9, 10, 14].map((cost) => log.timeThatFrees(cost))).toEqual([10, 10, 20, 20, 30, 30, 35, 35]);
  });

  test("merges into the newest entry of the same granule where there are many, and moves it to now", () => {
    const log = fineLog();
    log.view(GRANULE_US - 1, 0);
    log.pending = 7;
    expect(log.timeThatFrees(LOG_FINE_MAX)).toBe(GRANULE_US - 1);
    expect(log.timeThatFrees(LOG_FINE_MAX - 1)).toBe(LOG_FINE_MAX - 1);
    log.commit();
    expect([log.count, log.total, log.newestUs]).toEqual([LOG_FINE_MAX, LOG_FINE_MAX + 7, GRANULE_US - 1]);
    log.view(GRANULE_US, 0);
    log.pending = 1;
    log.commit();
    expect(log.count).toBe(LOG_FINE_MAX + 1);
  });

  test("leaves the newest entry where it is when a payment that would move it is undone", () => {
    const log = fineLog();
    log.view(GRANULE_US - 1, 0);
    log.pending = 7;
    log.pending -= 7;
    log.commit();
    expect(log.newestUs).toBe(LOG_FINE_MAX);
  });

  test("has few entries, however many payments there are", () => {
    const log = new LogState();
    log.granuleUs = GRANULE_US;
    let countMax = 0;
    for (let atUs = 1; atUs < 3 * WINDOW_US; atUs += 97) {
      log.view(atUs, atUs - WINDOW_US);
      log.pending = 1;
      log.commit();
      countMax = Math.max(countMax, log.count);
    }
    expect(countMax).toBeLessThanOrEqual(LOG_FINE_MAX + LOG_GRANULES + 1);
  });

  test("gives back what was paid in a granule off the entry that it was merged into", () => {
    const log = fineLog();
    for (const [atUs, cost] of [
      [1_000, 5],
      [2_000, 3],
    ] as const) {
      log.view(atUs, atUs - WINDOW_US);
      log.pending = cost;
      log.commit();
    }
    log.view(3_000, 0);
    log.takeOffAt(1_000, 5);
    expect([log.total, log.newestUs]).toEqual([LOG_FINE_MAX + 3, 2_000]);
    log.takeOffAt(GRANULE_US, 5);
    expect(log.total).toBe(LOG_FINE_MAX + 3);
  });

  test("stays small while old entries leave it", () => {
    const log = new LogState();
    const wrong: number[] = [];
    for (let atUs = 1; atUs <= 100_000; atUs++) {
      log.view(atUs, atUs - 100);
      log.pending = 3;
      log.commit();
      if (log.total !== Math.min(atUs, 100) * 3) wrong.push(atUs);
    }
    expect([log.kept, log.total, wrong]).toEqual([100, 300, []]);
  });

  test("dates late entries as of the view", () => {
    const log = logOf([10, 1], [500, 2], [600, 4]);
    log.view(40, 0);
    expect([log.newestUs, log.timeThatFrees(2), log.total]).toEqual([40, 40, 7]);
    log.commit();
    expect([log.count, log.newestKeptUs]).toEqual([3, 40]);
  });

  test("takes costs off from the newest on", () => {
    const log = logOf([10, 3], [20, 2], [30, 4]);
    log.view(35, 0);
    log.pending = 1;
    log.takeOffNewest(6);
    expect([log.count, log.total, log.newestUs]).toEqual([2, 4, 20]);
    log.takeOffNewest(99);
    expect([log.count, log.total]).toEqual([0, 0]);
  });

  test.each([
    { name: "a part of an entry", atUs: 20, cost: 1, count: 3, total: 8 },
    { name: "a whole entry", atUs: 20, cost: 2, count: 2, total: 7 },
    { name: "no more than the entry", atUs: 20, cost: 9, count: 2, total: 7 },
    { name: "the newest entry", atUs: 30, cost: 4, count: 2, total: 5 },
    { name: "nothing between entries", atUs: 25, cost: 4, count: 3, total: 9 },
    { name: "nothing of an entry that counts no more", atUs: 10, cost: 4, oldestUs: 10, count: 2, total: 6 },
  ])("takes off $name", ({ atUs, cost, oldestUs = 0, count, total }) => {
    const log = logOf([10, 3], [20, 2], [30, 4]);
    log.granuleUs = 1;
    log.view(35, oldestUs);
    log.takeOffAt(atUs, cost);
    expect([log.count, log.total]).toEqual([count, total]);
    log.view(35, oldestUs);
    expect([log.count, log.total]).toEqual([count, total]);
  });
});
