// How long a call waits for the store: STORE_DEADLINE (15 ms here), STORE_PATIENCE (100 ms), and its own deadline.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { answerByUs } from "../../../../src/stores/batching/store-patience.ts";
import { runs } from "../../../support/runs.ts";

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

  test("for the deadline alone where patience is no longer than that", () => {
    for (const leftUs of [15_000, 20_000, 1_000_000, Number.POSITIVE_INFINITY]) {
      expect(waitOf(leftUs, { deadlineUs: 15_000, patienceUs: 15_000 })).toBe(15_000);
      expect(waitOf(leftUs, { deadlineUs: 15_000, patienceUs: 5_000 })).toBe(15_000);
    }
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
