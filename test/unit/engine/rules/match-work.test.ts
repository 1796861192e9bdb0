// The bound on matching: what one call may spend, and that a process which stands still is not held against it.

import { describe, expect, test } from "vitest";
import { RequestError } from "../../../../src/base/errors.ts";
import { MATCH_US_MAX, MatchWork } from "../../../../src/engine/rules/match.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

function workOf(clock: ManualClock, pieces: number, pieceUs: number): MatchWork {
  const work = new MatchWork(clock);
  work.begin();
  for (let i = 0; i < pieces; i++) {
    work.spendLong();
    clock.advanceUs(pieceUs);
  }
  return work;
}

describe("the matching of one call", () => {
  test("ends when it has taken too long", () => {
    const clock = new ManualClock();
    const work = workOf(clock, MATCH_US_MAX / 1_000, 1_000);
    expect(() => work.spendLong()).toThrow(RequestError);
    work.begin();
    expect(() => work.spendLong()).not.toThrow();
  });

  test("may be interrupted by a pause of the process of a second", () => {
    const clock = new ManualClock();
    const work = workOf(clock, 1, 1_000_000);
    expect(() => work.spendLong()).not.toThrow();
  });

  test("counts many quick patterns on long values too", () => {
    const clock = new ManualClock();
    const work = new MatchWork(clock);
    work.begin();
    const tryAll = () => {
      for (let i = 0; i < 10_000; i++) {
        work.spendPattern(65_536);
        clock.advanceUs(10);
      }
    };
    expect(tryAll).toThrow("took longer than 20 ms");
  });
});
