// When the process counts as serving, and who hears of it.

import { expect, test } from "vitest";
import { HealthState } from "../../../src/engine/base/health.ts";

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

test("serves only while the processes beside it do too, and shows whose parts are meant", () => {
  const health = new HealthState("worker 1: ");
  const heard: boolean[] = [];
  health.watch((isServing) => heard.push(isServing));
  health.setNote("store", "slow");
  health.setOthers(new Map([["worker 2: store", "away"]]), new Map());
  health.setTrouble("rules", "none");
  expect(Object.fromEntries(health.troubles())).toEqual({ "worker 1: rules": "none", "worker 2: store": "away" });
  expect(Object.fromEntries(health.notes())).toEqual({ "worker 1: store": "slow" });
  health.setTrouble("rules", undefined);
  expect(health.isServing()).toBe(false);
  health.setOthers(new Map(), new Map());
  expect(heard).toEqual([false, true]);
});

test("tells of its own parts alone, once per change", () => {
  const health = new HealthState("worker 1: ");
  let changes = 0;
  health.watchOwn(() => changes++);
  health.setTrouble("store", "away");
  health.setTrouble("store", "away");
  health.setNote("store", "slow");
  health.setOthers(new Map([["worker 2: store", "away"]]), new Map());
  const { troubles, notes } = health.own();
  expect([Object.fromEntries(troubles), Object.fromEntries(notes)]).toEqual([{ store: "away" }, { store: "slow" }]);
  expect(changes).toBe(2);
});
