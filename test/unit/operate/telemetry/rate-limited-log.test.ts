// Each kind of line once a second, and less often the longer it goes on.

import { expect, test } from "vitest";
import { LOG_KINDS_MAX } from "../../../../src/operate/telemetry/rate-limited-log.ts";
import { recordedLog } from "../../../support/recorded-log.ts";

test("writes a kind once a second and says how many it left out", () => {
  const { clock, lines, log } = recordedLog();
  for (let i = 0; i < 5; i++) log.warn("slow", "store is slow", () => ({ i }));
  clock.advanceMs(999);
  log.warn("slow", "store is slow", () => ({ i: 5 }));
  clock.advanceMs(1);
  log.warn("slow", "store is slow", () => ({ i: 6 }));
  expect(lines).toEqual([
    { level: "warn", message: "store is slow", i: 0 },
    { level: "warn", message: "store is slow", i: 6, left_out: 5 },
  ]);
});

test("makes the fields only for lines that are written", () => {
  const { log } = recordedLog();
  let made = 0;
  for (let i = 0; i < 10; i++) log.info("a", "first", () => ({ made: ++made }));
  expect(made).toBe(1);
});

test("tells at the end what was left out, with the fields of the last", () => {
  const { lines, log } = recordedLog();
  for (const code of ["A", "B", "C"]) log.warn("a", "first", () => ({ code }));
  log.flush();
  log.flush();
  expect(lines.slice(1)).toEqual([{ level: "warn", message: "first", code: "C", left_out: 2 }]);
});

test("writes less and less often while trouble lasts, but once a minute", () => {
  const { clock, lines, log } = recordedLog();
  const seconds: number[] = [];
  for (let i = 0; i < 3_600; i++) {
    const before = lines.length;
    for (let j = 0; j < 100; j++) log.warn("slow", "store is slow", () => ({}));
    if (lines.length > before) seconds.push(i);
    clock.advanceMs(1_000);
  }
  expect(seconds.slice(0, 9)).toEqual([0, 1, 3, 7, 15, 31, 63, 123, 183]);
  expect(lines.length).toBeLessThan(70);
  expect(lines.at(-1)).toMatchObject({ left_out: 5_999 });
});

test("writes trouble that comes again after a quiet time at once, and once a second", () => {
  const { clock, lines, log } = recordedLog();
  for (let i = 0; i < 100; i++) {
    log.warn("slow", "store is slow", () => ({}));
    clock.advanceMs(1_000);
  }
  clock.advanceMs(120_000);
  const before = lines.length;
  for (let i = 0; i < 2; i++) {
    log.warn("slow", "store is slow", () => ({}));
    log.warn("slow", "store is slow", () => ({}));
    clock.advanceMs(1_000);
  }
  expect(lines.length - before).toBe(2);
});

test("keeps a bounded number of kinds; the rest shares one", () => {
  const { lines, log } = recordedLog();
  for (let i = 0; i < LOG_KINDS_MAX + 50; i++) log.warn(`kind ${i}`, "m", () => ({}));
  expect(lines).toHaveLength(LOG_KINDS_MAX + 1);
});

test("tells what was left out when its interval ends, not when the next one comes", () => {
  const { clock, lines, log } = recordedLog();
  for (const code of ["A", "B", "C"]) log.warn("a", "first", () => ({ code }));
  clock.advanceMs(999);
  log.tellDue();
  expect(lines).toHaveLength(1);
  clock.advanceMs(1);
  log.tellDue();
  log.tellDue();
  expect(lines.slice(1)).toEqual([{ level: "warn", message: "first", code: "C", left_out: 2, seconds_ago: 1 }]);
});

// Promise(operators): The last log lines report no trouble that is over.
test("says nothing at the end of trouble that is over", () => {
  const { clock, lines, log } = recordedLog();
  for (let second = 0; second < 300; second++) {
    if (second < 100) for (let i = 0; i < 10; i++) log.warn("store", "the store failed calls", () => ({ second }));
    clock.advanceMs(1_000);
    log.tellDue();
  }
  const told = lines.length;
  log.flush();
  expect(lines).toHaveLength(told);
  const counted = (lines as { left_out?: number }[]).reduce((sum, { left_out: leftOut = 0 }) => sum + 1 + leftOut, 0);
  // A line that tells of others alone counts for none itself.
  expect(counted - lines.filter((line) => "seconds_ago" in line).length).toBe(1_000);
});
