// Each kind of line once a second.

import { expect, test } from "vitest";
import { LOG_KINDS_MAX, RateLimitedLog } from "../../../src/telemetry/rate-limited-log.ts";
import { ManualClock } from "../../support/manual-clock.ts";

function makeLog() {
  const clock = new ManualClock();
  const lines: object[] = [];
  const write = (level: string) => (fields: object, message: string) => lines.push({ level, message, ...fields });
  const log = new RateLimitedLog({ info: write("info"), warn: write("warn"), error: write("error") }, clock);
  return { clock, lines, log };
}

test("writes a kind once a second and says how many it left out", () => {
  const { clock, lines, log } = makeLog();
  for (let i = 0; i < 5; i++) log.warn("slow", "store is slow", () => ({ i }));
  clock.advanceMs(999);
  log.warn("slow", "store is slow", () => ({ i: 5 }));
  clock.advanceMs(1);
  log.warn("slow", "store is slow", () => ({ i: 6 }));
  expect(lines).toEqual([
    { level: "warn", message: "store is slow", i: 0 },
    { level: "warn", message: "store is slow", i: 6, leftOut: 5 },
  ]);
});

test("does not let one kind silence another", () => {
  const { lines, log } = makeLog();
  log.warn("a", "first", () => ({}));
  log.error("b", "second", () => ({}));
  expect(lines).toHaveLength(2);
});

test("makes the fields only for lines that are written", () => {
  const { log } = makeLog();
  let made = 0;
  for (let i = 0; i < 10; i++) log.info("a", "first", () => ({ made: ++made }));
  expect(made).toBe(1);
});

test("tells at the end what was left out", () => {
  const { lines, log } = makeLog();
  log.warn("a", "first", () => ({}));
  log.warn("a", "first", () => ({}));
  log.flush();
  log.flush();
  expect(lines.slice(1)).toEqual([{ level: "warn", message: "first", leftOut: 1 }]);
});

test("keeps a bounded number of kinds; the rest shares one", () => {
  const { lines, log } = makeLog();
  for (let i = 0; i < LOG_KINDS_MAX + 50; i++) log.warn(`kind ${i}`, "m", () => ({}));
  expect(lines).toHaveLength(LOG_KINDS_MAX + 1);
});
