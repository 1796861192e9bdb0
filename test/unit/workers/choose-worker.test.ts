// Which worker gets a connection.

import { expect, test } from "vitest";
import { chooseWorker } from "../../../src/process/workers/choose-worker.ts";

const taker = (name: string, connections: number, openStreams = 0, lastGiven = 0) => {
  return { name, connections, openStreams, lastGiven };
};

const choose = (takers: readonly ReturnType<typeof taker>[], avoided?: ReturnType<typeof taker>) =>
  chooseWorker(takers, ({ connections }) => connections, avoided)?.name;

test.each([
  { name: "fewest connections", takers: [taker("a", 2), taker("b", 1), taker("c", 3)], chosen: "b" },
  { name: "fewest connections, however busy", takers: [taker("a", 1, 90), taker("b", 2, 0)], chosen: "a" },
  { name: "equal connections, fewest open streams", takers: [taker("a", 1, 9), taker("b", 1, 3)], chosen: "b" },
  { name: "all equal, the longest wait", takers: [taker("a", 1, 0, 7), taker("b", 1, 0, 4)], chosen: "b" },
])("of $name", ({ takers, chosen }) => {
  expect(choose(takers)).toBe(chosen);
});

test("the one that has just sent a connection away gets it back only if nobody else is there", () => {
  const [a, b, c] = [taker("a", 0), taker("b", 5), taker("c", 4)];
  expect(choose([a, b, c], a)).toBe("c");
  expect(choose([b, a], a)).toBe("b");
  expect(choose([a], a)).toBe("a");
  expect(choose([])).toBeUndefined();
});
