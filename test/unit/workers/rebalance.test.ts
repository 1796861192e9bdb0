// When a connection should move: the arithmetic, with time by hand.

import { describe, expect, test } from "vitest";
import { chooseMove, MOVE_INTERVAL_US, Rebalancer } from "../../../src/process/workers/rebalance.ts";

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

const SECOND_US = 1_000_000;

/** The times, in seconds, at which a move is made out of so many looks; every move is noted. */
function movesOf(looks: number, workersAt: (second: number) => ReturnType<typeof load>[]): number[] {
  const rebalancer = new Rebalancer<ReturnType<typeof load>>();
  const moves: number[] = [];
  for (let second = 1; second <= looks; second++) {
    if (rebalancer.look(workersAt(second), second * SECOND_US) === undefined) continue;
    rebalancer.noteMove(second * SECOND_US);
    moves.push(second);
  }
  return moves;
}

// Promise(processes): All workers together send away one connection in ten seconds.
test("the first move is made at the third look, the next ones ten seconds apart", () => {
  const workers = [load("a", 9, 90), load("b", 1, 1)];
  expect(movesOf(30, () => workers)).toEqual([3, 13, 23]);
});

test("a worker that is crowded now and then, or in turn with another, is left alone", () => {
  const [a, b] = [load("a", 2, 90), load("b", 2, 1)];
  const calm = [load("a", 2, 3), load("b", 2, 2)];
  expect(movesOf(30, (second) => (second % 3 === 0 ? calm : [a, b]))).toEqual([]);
  const [c, d] = [load("c", 2, 90), load("d", 2, 1)];
  expect(movesOf(30, (second) => (second % 2 === 0 ? [a, b] : [c, d]))).toEqual([]);
});

test("a move that was called for and not made is called for again", () => {
  const rebalancer = new Rebalancer<ReturnType<typeof load>>();
  const workers = [load("a", 2, 90), load("b", 2, 1)];
  const calls = [1, 2, 3, 4, 5].map((second) => rebalancer.look(workers, second * SECOND_US) !== undefined);
  expect(calls).toEqual([false, false, true, true, true]);
  expect(MOVE_INTERVAL_US).toBe(10 * SECOND_US);
});
