// Answers of another thread: late ones, and those of one that ends.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Questions } from "../../../src/process/workers/questions.ts";

const QUESTION = { about: "report" } as const;
let ids: number[];
let questions: Questions;

beforeEach(() => {
  vi.useFakeTimers();
  ids = [];
  questions = new Questions(({ id }) => ids.push(id), 2_000);
});
afterEach(() => {
  vi.useRealTimers();
});

test("a thread that hangs is not waited for after its time, and a later answer is dropped", async () => {
  const answer = questions.ask(QUESTION);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await answer).toBeUndefined();
  questions.take(ids[0] ?? -1, "late");
});

test("a thread that ends meanwhile is not waited for; each question gets its own answer", async () => {
  const answers = [questions.ask(QUESTION), questions.ask(QUESTION), questions.ask(QUESTION)];
  questions.take(ids[1] ?? -1, "second");
  questions.take(ids[0] ?? -1, "first");
  questions.end();
  expect(await Promise.all(answers)).toEqual(["first", "second", undefined]);
});
