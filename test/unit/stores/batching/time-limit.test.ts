// Waiting for an answer, but not for ever. Timers move by hand.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { SilenceError, withTimeLimit } from "../../../../src/stores/batching/time-limit.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const later = <T>(ms: number, answer: T) => new Promise<T>((resolve) => setTimeout(() => resolve(answer), ms));

describe("an answer that is waited for no longer than a while", () => {
  test("is passed on if it comes in time, and leaves no timer", async () => {
    const answer = withTimeLimit(100, later(99, "pong"));
    await vi.advanceTimersByTimeAsync(99);
    expect(await answer).toBe("pong");
    expect(vi.getTimerCount()).toBe(0);
  });

  test("is given up after that time, with a word on how long it was", async () => {
    const answer = expect(withTimeLimit(100, later(101, "pong"))).rejects.toThrow(
      new SilenceError("no answer within 100 ms"),
    );
    await vi.advanceTimersByTimeAsync(100);
    await answer;
  });

  test("fails with what it fails with", async () => {
    await expect(withTimeLimit(100, Promise.reject(new Error("refused")))).rejects.toThrow("refused");
    expect(vi.getTimerCount()).toBe(0);
  });
});
