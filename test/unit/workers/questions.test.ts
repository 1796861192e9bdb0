// Answers of all workers: who answers in time counts, who hangs or ends is left out.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { ToWorker } from "../../../src/process/workers/messages.ts";
import { Questions } from "../../../src/process/workers/questions.ts";

const QUESTION = { about: "report" } as const;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function makeWorker(number: number) {
  const ids: number[] = [];
  return { number, ids, send: (message: ToWorker) => message.kind === "ask" && ids.push(message.id) };
}

test("a worker that hangs is left out after two seconds, and what it says later is nobody's", async () => {
  const questions = new Questions();
  const [one, hanging] = [makeWorker(1), makeWorker(2)];
  const answers = questions.ask([one, hanging], QUESTION);
  questions.take(one.ids[0] ?? -1, "well");
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await answers).toEqual([[1, "well"]]);
  questions.take(hanging.ids[0] ?? -1, "late");
});

test("a worker that ends meanwhile is not waited for; each question gets its own answers", async () => {
  const questions = new Questions();
  const [one, ending] = [makeWorker(1), makeWorker(2)];
  const answers = [questions.ask([one, ending], QUESTION), questions.ask([one], QUESTION)];
  questions.take(one.ids[1] ?? -1, "second");
  questions.take(one.ids[0] ?? -1, undefined);
  questions.bury(ending);
  expect(await Promise.all(answers)).toEqual([[[1, undefined]], [[1, "second"]]]);
});
