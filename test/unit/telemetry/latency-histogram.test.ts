// Durations counted in buckets.

import { expect, test } from "vitest";
import { LATENCY_BOUNDS_US, LatencyHistogram } from "../../../src/operate/telemetry/latency-histogram.ts";

test("counts each duration in the first bucket whose bound holds it", () => {
  const histogram = new LatencyHistogram();
  for (const us of [0, 10, 11, 20_000, 20_001, 9_999_999]) histogram.observe(us);
  const byBound = Object.fromEntries(LATENCY_BOUNDS_US.map((bound, i) => [bound, histogram.counts()[i]]));
  expect(byBound).toMatchObject({ 10: 2, 25: 1, 20000: 1, 50000: 1 });
  expect(histogram.counts().at(-1)).toBe(1);
  expect(histogram.count()).toBe(6);
  expect(histogram.sumUs).toBe(10_040_021);
});

test("counts a negative duration as none", () => {
  const histogram = new LatencyHistogram();
  histogram.observe(-5);
  expect([histogram.counts()[0], histogram.sumUs]).toEqual([1, 0]);
});
