// When the breaker opens, and how it closes.

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

function record(succeeded: number, failed: number): void {
  breaker.record(succeeded, failed, clock.nowUs());
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
  expect([breaker.state, changes]).toEqual([state, state === "open" ? ["open"] : []]);
});

describe("open", () => {
  beforeEach(() => record(0, 20));

  test("stays so whatever comes of earlier takes, until a probe is sent", () => {
    record(100, 0);
    record(0, 100);
    breaker.endProbe(false);
    expect(changes).toEqual(["open"]);
    breaker.beginProbe();
    record(5, 5);
    expect(changes).toEqual(["open", "probing"]);
  });

  test("closes when a probe succeeds, with a clean slate", () => {
    breaker.beginProbe();
    breaker.endProbe(true);
    record(0, 19);
    expect(changes).toEqual(["open", "probing", "closed"]);
  });

  test("closes when the server answers that it has handed its keys over", () => {
    breaker.noteAlive();
    expect(changes).toEqual(["open", "closed"]);
  });
});

test("closed, it ignores what becomes of a probe", () => {
  breaker.beginProbe();
  breaker.endProbe(false);
  breaker.endProbe(true);
  expect(changes).toEqual([]);
});
