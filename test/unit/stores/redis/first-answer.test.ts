// Several servers are asked the same, no more of them than needed.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { firstAnswer } from "../../../../src/stores/redis/first-answer.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const silent = () => new Promise<string>(() => undefined);
const fails = (message: string) => () => Promise.reject(new Error(message));

test("one that answers leaves the others alone", async () => {
  const other = vi.fn(silent);
  await expect(firstAnswer([() => Promise.resolve("a"), other])).resolves.toBe("a");
  await vi.advanceTimersByTimeAsync(1_000);
  expect(other).not.toHaveBeenCalled();
});

test("one that fails gives way at once, one that is silent after a moment", async () => {
  const answer = firstAnswer([fails("down"), silent, () => Promise.resolve("c")]);
  await vi.advanceTimersByTimeAsync(200);
  await expect(answer).resolves.toBe("c");
});

test("an answer that comes late is still the first one", async () => {
  let say: (text: string) => void = () => undefined;
  const slow = () =>
    new Promise<string>((resolve) => {
      say = resolve;
    });
  const answer = firstAnswer([slow, fails("down")]);
  await vi.advanceTimersByTimeAsync(200);
  say("late");
  await expect(answer).resolves.toBe("late");
});

test("when all fail the first error is thrown, and each is passed on", async () => {
  const heard: unknown[] = [];
  const answer = firstAnswer([fails("one"), fails("two")], (error) => heard.push(error));
  await expect(answer).rejects.toThrow("one");
  expect(heard).toHaveLength(2);
  await expect(firstAnswer([])).rejects.toThrow("nobody to ask");
});
