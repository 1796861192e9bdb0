// How long work is waited for, with time moved by hand.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { waitAtMost } from "../../../src/base/wait-at-most.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("work that ends in time is done, and leaves no timer behind", async () => {
  expect([await waitAtMost(1_000, Promise.resolve("anything")), vi.getTimerCount()]).toEqual([true, 0]);
});

test("work that never ends is waited for as long as allowed, and no longer", async () => {
  let answer: boolean | undefined;
  // Counted before anything else can set timers, such as a connection of an earlier file that still tries to come back.
  const before = vi.getTimerCount();
  const waited = waitAtMost(1_000, new Promise(() => undefined)).then((isDone) => {
    answer = isDone;
  });
  expect(vi.getTimerCount() - before).toBe(1);
  await vi.advanceTimersByTimeAsync(999);
  expect(answer).toBeUndefined();
  await vi.advanceTimersByTimeAsync(1);
  await waited;
  expect(answer).toBe(false);
});

test("work that fails in time fails here, and leaves no timer behind", async () => {
  await expect(waitAtMost(1_000, Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(vi.getTimerCount()).toBe(0);
});

test("work that fails too late breaks nothing", async () => {
  let fail = (_error: Error): void => undefined;
  const work = new Promise<void>((_, reject) => {
    fail = reject;
  });
  const waited = waitAtMost(1_000, work);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await waited).toBe(false);
  fail(new Error("late"));
  await vi.advanceTimersByTimeAsync(0);
});
