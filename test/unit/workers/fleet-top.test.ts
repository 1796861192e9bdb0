// Top keys of all workers: who answers in time counts, who hangs or ends is left out.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { NO_SUMMARY, type TopSummary } from "../../../src/operate/telemetry/top/summary.ts";
import { FleetTop } from "../../../src/process/workers/fleet-top.ts";
import type { ToWorker } from "../../../src/process/workers/messages.ts";

const WANTED = { window: "minute", keysMax: 200 } as const;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function makeWorker() {
  const asked: ToWorker[] = [];
  return { showsPages: true, asked, send: (message: ToWorker) => asked.push(message) };
}

function summary(fromUs: number): TopSummary {
  return { ...NO_SUMMARY, fromUs };
}

function idOf(worker: ReturnType<typeof makeWorker>): number {
  const [message] = worker.asked;
  return message?.kind === "top wanted" ? message.id : -1;
}

test("a worker that hangs is left out after two seconds, and what it says later is nobody's", async () => {
  const top = new FleetTop();
  const [one, hanging] = [makeWorker(), makeWorker()];
  const tops = top.ask([one, hanging], WANTED);
  top.take(idOf(one), summary(1));
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await tops).toEqual([summary(1)]);
  top.take(idOf(hanging), summary(2));
});

test("a worker that ends meanwhile is not waited for", async () => {
  const top = new FleetTop();
  const [one, ending] = [makeWorker(), makeWorker()];
  const tops = top.ask([one, ending], WANTED);
  top.take(idOf(one), summary(1));
  top.bury(ending);
  expect(await tops).toEqual([summary(1)]);
});
