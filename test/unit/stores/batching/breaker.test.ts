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

const admits = () => breaker.admits(clock.nowUs());

function record(succeeded: number, failed: number, isProbe = false): void {
  breaker.record({ succeeded, failed, isProbe }, clock.nowUs());
}

/** Outcomes, succeeded and failed, each after so many milliseconds. */
type Outcomes = readonly (readonly [afterMs: number, succeeded: number, failed: number])[];

test.each<{ name: string; outcomes: Outcomes; state: BreakerState }>([
  { name: "half of twenty failed", outcomes: [[0, 10, 10]], state: "open" },
  { name: "fewer than half failed", outcomes: [[0, 11, 10]], state: "closed" },
  { name: "all of nineteen failed", outcomes: [[0, 0, 19]], state: "closed" },
  { name: "one failed again and again in a window", outcomes: Array(20).fill([40, 0, 1]), state: "open" },
  { name: "failures are older than the window", outcomes: Array(2).fill([1_100, 0, 19]), state: "closed" },
  {
    name: "successes are older than the window",
    outcomes: [
      [0, 1_000, 0],
      [1_100, 0, 20],
    ],
    state: "open",
  },
  { name: "all succeeded", outcomes: [[0, 1_000_000, 0]], state: "closed" },
])("it is $state when $name", ({ outcomes, state }) => {
  for (const [afterMs, succeeded, failed] of outcomes) {
    expect(changes).toEqual([]);
    clock.advanceMs(afterMs);
    record(succeeded, failed);
  }
  expect([breaker.state, admits(), changes]).toEqual([state, state === "closed", state === "open" ? ["open"] : []]);
});

describe("open", () => {
  beforeEach(() => record(0, 20));

  test("admits nothing until its pause is over, whatever comes meanwhile, then probes", () => {
    record(100, 0);
    record(0, 100);
    clock.advanceUs(OPTIONS.pauseUs - 1);
    expect(admits()).toBe(false);
    clock.advanceUs(1);
    expect(admits()).toBe(true);
    expect(changes).toEqual(["open", "probing"]);
  });

  test("probes at once when the pause is ended from outside", () => {
    breaker.endPause();
    expect([admits(), breaker.state]).toEqual([true, "probing"]);
  });
});

describe("probing", () => {
  beforeEach(() => {
    record(0, 20);
    clock.advanceUs(OPTIONS.pauseUs);
    admits();
  });

  test("closes when a group of the probe succeeds, with a clean slate", () => {
    record(5, 5, false);
    // Outcomes of earlier batches say nothing.
    expect(breaker.state).toBe("probing");
    record(1, 3, true);
    expect(breaker.state).toBe("closed");
    record(0, 19);
    expect(breaker.state).toBe("closed");
  });

  test("opens for another pause when the probe fails", () => {
    record(0, 1, true);
    expect([breaker.state, admits()]).toEqual(["open", false]);
    clock.advanceUs(OPTIONS.pauseUs);
    expect(admits()).toBe(true);
  });
});
