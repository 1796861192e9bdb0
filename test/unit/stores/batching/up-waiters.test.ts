// Waiting for a store to come up. Timers move by hand.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { UpWaiters } from "../../../../src/stores/batching/up-waiters.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** The answers that came so far to two who wait for a second. */
function start() {
  const state = { isUp: false };
  const waiters = new UpWaiters(() => state.isUp);
  const answers: boolean[] = [];
  for (let i = 0; i < 2; i++) void waiters.whenUp(1_000).then((isUp) => answers.push(isUp));
  return { state, waiters, answers };
}

describe("those who wait for a store to be up", () => {
  test("are told at once while it is", async () => {
    expect(await new UpWaiters(() => true).whenUp(0)).toBe(true);
  });

  test("are told when it comes up, not at every look", async () => {
    const { state, waiters, answers } = start();
    waiters.look();
    await vi.advanceTimersByTimeAsync(500);
    expect(answers).toEqual([]);
    state.isUp = true;
    waiters.look();
    await vi.advanceTimersByTimeAsync(0);
    expect(answers).toEqual([true, true]);
  });

  test("are told when their time is over", async () => {
    const { answers } = start();
    await vi.advanceTimersByTimeAsync(999);
    expect(answers).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(answers).toEqual([false, false]);
  });

  test("are told when it will not come up any more, and leave no timer", async () => {
    const { waiters, answers } = start();
    waiters.answerAll();
    await vi.advanceTimersByTimeAsync(0);
    expect(answers).toEqual([false, false]);
    expect(vi.getTimerCount()).toBe(0);
  });
});
