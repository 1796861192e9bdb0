// Deadlines on the server's clock: never later than they are here, whatever the clocks and the network do.

import fc from "fast-check";
import { expect, test } from "vitest";
import { ServerTime } from "../../../../src/stores/batching/server-time.ts";
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
