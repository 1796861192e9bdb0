// When the process counts as serving, and who hears of it.

import { expect, test } from "vitest";
import { HealthState } from "../../../src/base/health.ts";

test("serves while nothing is wrong, and again when all that was wrong is taken back", () => {
  const health = new HealthState();
  expect(health.isServing()).toBe(true);
  health.setTrouble("rules", "no rules are loaded");
  health.setTrouble("store", "the store does not answer");
  health.setTrouble("rules", undefined);
  expect(health.isServing()).toBe(false);
  expect([...health.troubles()]).toEqual([["store", "the store does not answer"]]);
  health.setTrouble("store", undefined);
  expect(health.isServing()).toBe(true);
});

test("tells watchers of changes only, until they stop watching", () => {
  const health = new HealthState();
  const heard: boolean[] = [];
  const stop = health.watch((isServing) => heard.push(isServing));
  health.setTrouble("rules", "a");
  health.setTrouble("rules", "b");
  health.setTrouble("rules", undefined);
  stop();
  health.setTrouble("rules", "c");
  expect(heard).toEqual([false, true]);
});
