// How long a worker that ended is waited for.

import { expect, test } from "vitest";
import { RestartPace } from "../../../src/process/workers/restart-pace.ts";

const SECOND_US = 1_000_000;

test("the first one is replaced at once, those that follow after ever longer pauses, up to half a minute", () => {
  const pace = new RestartPace();
  const pauses = Array.from({ length: 10 }, () => pace.pauseAfter(SECOND_US));
  expect(pauses).toEqual([0, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000]);
});

test("one that lived a minute begins the count again", () => {
  const pace = new RestartPace();
  for (let i = 0; i < 5; i++) pace.pauseAfter(SECOND_US);
  expect(pace.pauseAfter(60 * SECOND_US)).toBe(0);
  expect(pace.pauseAfter(SECOND_US)).toBe(200);
});
