// When the breaker opens, what it lets through, and how it closes.

import { beforeEach, describe, expect, test } from "vitest";
import { Breaker, type BreakerState } from "../../../../src/stores/batching/breaker.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

const OPTIONS = { windowUs: 1_000_000, outcomesMin: 20, failureShare: 0.5, pauseUs: 250_000 };

let clock: ManualClock;
let changes: BreakerState[];
let breaker: Breaker;

beforeEach(() => {
  clock = new ManualClock();
  changes = [];
  breaker = new Breaker(OPTIONS, (state) => changes.push(state));
});

function record(succeeded: number, failed: number, isProbe = false): void {
  breaker.record({ succeeded, failed, isProbe }, clock.nowUs());
}

function open(): void {
  record(0, 20);
}

describe("closed", () => {
  test.each([
    { name: "half of twenty", succeeded: 10, failed: 10, state: "open" },
    { name: "fewer than half", succeeded: 11, failed: 10, state: "closed" },
    { name: "all of nineteen", succeeded: 0, failed: 19, state: "closed" },
    { name: "all of twenty", succeeded: 0, failed: 20, state: "open" },
  ])("with $name failed it is $state", ({ succeeded, failed, state }) => {
    record(succeeded, failed);
    expect(breaker.state).toBe(state);
    expect(breaker.admits(clock.nowUs())).toBe(state === "closed");
  });

  test("counts failures of the whole window together", () => {
    for (let i = 0; i < 20; i++) {
      expect(breaker.state).toBe("closed");
      clock.advanceMs(40);
      record(0, 1);
    }
    expect(breaker.state).toBe("open");
  });

  test("forgets outcomes that are older than the window", () => {
    record(0, 19);
    clock.advanceMs(1_100);
    record(0, 19);
    expect(breaker.state).toBe("closed");
  });

  test("forgets successes that are older than the window", () => {
    record(1_000, 0);
    clock.advanceMs(1_100);
    record(0, 20);
    expect(breaker.state).toBe("open");
  });

  test("successes alone never open it", () => {
    record(1_000_000, 0);
    expect(changes).toEqual([]);
  });
});

describe("open", () => {
  beforeEach(open);

  test("admits nothing until its pause is over, then probes", () => {
    clock.advanceUs(OPTIONS.pauseUs - 1);
    expect(breaker.admits(clock.nowUs())).toBe(false);
    clock.advanceUs(1);
    expect(breaker.admits(clock.nowUs())).toBe(true);
    expect(changes).toEqual(["open", "probing"]);
  });

  test("outcomes that come now change nothing", () => {
    record(100, 0);
    record(0, 100);
    expect(changes).toEqual(["open"]);
  });

  test("probes at once when the pause is ended from outside", () => {
    breaker.endPause();
    expect(breaker.admits(clock.nowUs())).toBe(true);
    expect(breaker.state).toBe("probing");
  });
});

describe("probing", () => {
  beforeEach(() => {
    open();
    clock.advanceUs(OPTIONS.pauseUs);
    breaker.admits(clock.nowUs());
  });

  test("closes when a group of the probe succeeds, with a clean slate", () => {
    record(1, 3, true);
    expect(breaker.state).toBe("closed");
    record(0, 19);
    expect(breaker.state).toBe("closed");
  });

  test("opens for another pause when the probe fails", () => {
    record(0, 1, true);
    expect(breaker.state).toBe("open");
    expect(breaker.admits(clock.nowUs())).toBe(false);
    clock.advanceUs(OPTIONS.pauseUs);
    expect(breaker.admits(clock.nowUs())).toBe(true);
  });

  test("does not listen to outcomes of earlier batches", () => {
    record(5, 5, false);
    expect(breaker.state).toBe("probing");
  });
});
