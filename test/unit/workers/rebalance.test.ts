// When a connection should move: the arithmetic, with time by hand.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { chooseMove, MOVE_INTERVAL_US, MovePace } from "../../../src/workers/rebalance.ts";

const load = (name: string, connections: number, openStreams: number) => ({ name, connections, openStreams });

describe("a connection moves", () => {
  test.each([
    { name: "away from more than twice of one other", loads: [load("a", 2, 41), load("b", 2, 20)], surplus: 21 },
    {
      name: "away from more than twice the mean of several, by what the least of them has less",
      loads: [load("b", 4, 10), load("a", 4, 61), load("c", 4, 50)],
      surplus: 51,
    },
    { name: "away from all there is", loads: [load("a", 2, 30), load("b", 0, 0)], surplus: 30 },
  ])("$name", ({ loads, surplus }) => {
    const move = chooseMove(loads);
    expect([move?.from.name, move?.surplus]).toEqual(["a", surplus]);
  });

  test.each([
    { name: "at twice the others' mean", loads: [load("a", 2, 40), load("b", 2, 20)] },
    { name: "while there is nobody else", loads: [load("a", 8, 900)] },
    { name: "if it is the only one of its worker", loads: [load("a", 1, 900), load("b", 1, 0)] },
    { name: "while hardly anything is open", loads: [load("a", 2, 1.9), load("b", 2, 0)] },
    { name: "where there are no workers", loads: [] },
  ])("not $name", ({ loads }) => {
    expect(chooseMove(loads)).toBeUndefined();
  });
});

test("only the busiest is ever asked, and the surplus is never more than it has", () => {
  const loads = fc.array(
    fc.record({ connections: fc.nat(50), openStreams: fc.double({ min: 0, max: 1e4, noNaN: true }) }),
    { maxLength: 8 },
  );
  fc.assert(
    fc.property(loads, (workers) => {
      const move = chooseMove(workers);
      if (move === undefined) return;
      expect(Math.max(...workers.map(({ openStreams }) => openStreams))).toBe(move.from.openStreams);
      expect(move.surplus).toBeGreaterThan(0);
      expect(move.surplus).toBeLessThanOrEqual(move.from.openStreams);
    }),
    { numRuns: 300 },
  );
});

test("moves are ten seconds apart", () => {
  const pace = new MovePace();
  expect(pace.allows(5)).toBe(true);
  pace.noteMove(5);
  expect(pace.allows(5 + MOVE_INTERVAL_US - 1)).toBe(false);
  expect(pace.allows(5 + MOVE_INTERVAL_US)).toBe(true);
});
