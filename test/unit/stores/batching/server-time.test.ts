// Deadlines on the server's clock: never later than they are here, whatever the clocks and the network do.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { answerByUs, ServerTime } from "../../../../src/stores/batching/server-time.ts";
import { runs } from "../../../support/runs.ts";

const SECOND_US = 1_000_000;

/** A round trip to a server whose clock is `offsetUs` ahead: so long there, so long back. */
function sample(sentUs: number, offsetUs: number, thereUs: number, backUs: number) {
  return { sentUs, serverUs: sentUs + thereUs + offsetUs, receivedUs: sentUs + thereUs + backUs };
}

test("knows no latest time before the first sample and after forgetting", () => {
  const time = new ServerTime();
  expect(time.latestFor(SECOND_US)).toBe(0);
  time.observe(sample(0, 5_000, 100, 100));
  expect(time.latestFor(SECOND_US)).toBe(SECOND_US + 4_900);
  time.forget();
  expect(time.latestFor(SECOND_US)).toBe(0);
});

test("takes the whole uncertainty off a deadline: the latest time is never after it", () => {
  const offsets = fc.integer({ min: -1e12, max: 1e12 });
  const legs = fc.integer({ min: 0, max: 20_000 });
  const trips = fc.array(fc.tuple(legs, legs, fc.integer({ min: 0, max: 50 * SECOND_US })), {
    minLength: 1,
    maxLength: 20,
  });
  fc.assert(
    fc.property(offsets, trips, (offsetUs, each) => {
      const time = new ServerTime();
      let nowUs = 1e15;
      for (const [thereUs, backUs, pauseUs] of each) {
        time.observe(sample(nowUs, offsetUs, thereUs, backUs));
        nowUs += pauseUs + thereUs + backUs;
      }
      expect(time.latestFor(nowUs)).toBeLessThanOrEqual(nowUs + offsetUs);
    }),
    { numRuns: runs(200) },
  );
});

test("goes by the shortest round trip of the last minute", () => {
  const time = new ServerTime();
  time.observe(sample(0, 7_000, 50, 50));
  time.observe(sample(10 * SECOND_US, 7_000, 4_000, 9_000));
  expect(time.latestFor(0)).toBe(7_000 - 50);
  expect(time.estimateUs(0)).toBe(7_000);
});

test("a short round trip is forgotten after a minute", () => {
  const time = new ServerTime();
  time.observe(sample(0, 7_000, 50, 50));
  time.observe(sample(31 * SECOND_US, 7_000, 400, 400));
  expect(time.latestFor(0)).toBe(7_000 - 50);
  time.observe(sample(62 * SECOND_US, 7_000, 500, 500));
  expect(time.latestFor(0)).toBe(7_000 - 400);
});

test("a clock that was set is believed at once, in both directions", () => {
  for (const newOffsetUs of [-3_600 * SECOND_US, 3_600 * SECOND_US]) {
    const time = new ServerTime();
    time.observe(sample(0, 7_000, 50, 50));
    time.observe(sample(SECOND_US, newOffsetUs, 500, 500));
    expect(time.latestFor(0)).toBe(newOffsetUs - 500);
  }
});

const SENT_US = 1_767_225_600_000_000;
const patience = { deadlineUs: 15_000, patienceUs: 100_000 };

const waitOf = (leftUs: number, rule = patience) => answerByUs(SENT_US, SENT_US + leftUs, rule) - SENT_US;

describe("a call waits", () => {
  test.each([
    { left: "that has no deadline as long as patience lasts", leftUs: Number.POSITIVE_INFINITY, waitUs: 100_000 },
    { left: "with far more time as long as patience lasts", leftUs: 3_000_000, waitUs: 100_000 },
    { left: "with just twice the patience as long as patience lasts", leftUs: 200_000, waitUs: 100_000 },
    { left: "with less for half of what it has", leftUs: 120_000, waitUs: 60_000 },
    { left: "with just twice the deadline for the deadline", leftUs: 30_000, waitUs: 15_000 },
    { left: "with little more than the deadline for the deadline", leftUs: 20_000, waitUs: 15_000 },
    { left: "with less than the deadline until its own", leftUs: 9_000, waitUs: 9_000 },
    { left: "that came too late not at all", leftUs: 0, waitUs: 0 },
  ])("$left", ({ leftUs, waitUs }) => {
    expect(waitOf(leftUs)).toBe(waitUs);
  });
});

test("a wait stays within the call's time and never shrinks when the call has more", () => {
  const micros = fc.integer({ min: 0, max: 5_000_000 });
  fc.assert(
    fc.property(micros, micros, micros, micros, (deadlineUs, patienceUs, leftUs, moreUs) => {
      const rule = { deadlineUs, patienceUs };
      const waitUs = waitOf(leftUs, rule);
      expect(waitUs).toBeLessThanOrEqual(leftUs);
      expect(waitUs).toBeGreaterThanOrEqual(Math.min(leftUs, deadlineUs));
      expect(waitUs).toBeLessThanOrEqual(Math.max(deadlineUs, patienceUs));
      expect(waitOf(leftUs + moreUs, rule)).toBeGreaterThanOrEqual(waitUs);
    }),
    { numRuns: runs(500) },
  );
});
