// Pauses before a server that is away is tried again, however they are spread.

import { describe, expect, test } from "vitest";
import { RetryPause } from "../../../../src/stores/batching/retry-pause.ts";

/** The longest that each of so many pauses may be: half of it is certain, the rest spread. */
function expectPauses(pause: RetryPause, longestMs: readonly number[]): void {
  for (const ms of longestMs) {
    const next = pause.next();
    expect(next).toBeGreaterThanOrEqual(ms / 2);
    expect(next).toBeLessThanOrEqual(ms);
  }
}

describe("the pause before a server is tried again", () => {
  test("doubles from hardly anything to a second, and stays there", () => {
    expectPauses(new RetryPause(), [20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000]);
  });

  test("begins anew after an attempt that succeeded", () => {
    const pause = new RetryPause();
    expectPauses(pause, [20, 40, 80]);
    pause.reset();
    expectPauses(pause, [20, 40]);
  });
});
