// Limits of every algorithm that several processes count together, and how much of each passed: what lease.test.ts, periodic.test.ts and
// share.test.ts hold against the bounds that they promise.

import fc from "fast-check";
import { Algorithm, type Limit, type Sync } from "../../src/engine/domain/limit.ts";
import { makeLimit } from "../support/builders.ts";
import { type Fleet, mostBeyondRate, mostInAlignedWindow, mostInAnyWindow } from "../support/simulated-fleet.ts";

export interface BoundedLimit {
  readonly name: string;
  readonly algorithm: Algorithm;
  readonly limits: fc.Arbitrary<Limit>;
  /** The most that passed in any time beyond `rate`, its own if none is given, or in the windows that the algorithm promises for. */
  readonly passed: (fleet: Fleet, limit: Limit, rate?: number) => number;
}

interface Amounts {
  readonly sync: Sync;
  readonly amounts: fc.Arbitrary<number>;
  /** Of token buckets, in amounts. */
  readonly bursts: readonly number[];
}

/** A row for each algorithm; `atMost` says in words what is promised of it. */
export function boundedLimits(
  { sync, amounts, bursts }: Amounts,
  atMost: Readonly<Record<Algorithm, string>>,
): readonly BoundedLimit[] {
  const buckets = fc
    .tuple(amounts, fc.constantFrom(...bursts))
    .map(([amount, times]) => makeLimit({ amount, burst: Math.ceil(amount * times), sync }));
  const row = (algorithm: Algorithm, name: string, passed: BoundedLimit["passed"]): BoundedLimit => ({
    name: `${name}: ${atMost[algorithm]}`,
    algorithm,
    limits:
      algorithm === Algorithm.tokenBucket ? buckets : amounts.map((amount) => makeLimit({ algorithm, amount, sync })),
    passed,
  });
  const inAlignedWindow: BoundedLimit["passed"] = ({ grants }, limit) => mostInAlignedWindow(grants, limit);
  return [
    row(Algorithm.tokenBucket, "token bucket", ({ grants }, { amount }, rate = amount) => mostBeyondRate(grants, rate)),
    row(Algorithm.fixedWindow, "fixed window", inAlignedWindow),
    row(Algorithm.calendarWindow, "calendar window", inAlignedWindow),
    row(Algorithm.slidingWindow, "sliding window", inAlignedWindow),
    row(Algorithm.slidingLog, "sliding log", ({ grants }, limit) => mostInAnyWindow(grants, limit)),
  ];
}
