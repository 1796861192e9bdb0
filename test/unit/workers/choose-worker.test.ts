// Which worker gets a connection.

import { expect, test } from "vitest";
import { chooseWorker } from "../../../src/process/workers/choose-worker.ts";

const taker = (name: string, connections: number, openStreams = 0, lastGiven = 0) => {
  return { name, connections, openStreams, lastGiven };
};

const choose = (takers: readonly ReturnType<typeof taker>[]) =>
  chooseWorker(takers, ({ connections }) => connections)?.name;

test.each([
  { name: "fewest connections", takers: [taker("a", 2), taker("b", 1), taker("c", 3)], chosen: "b" },
  { name: "fewest connections, however busy", takers: [taker("a", 1, 90), taker("b", 2, 0)], chosen: "a" },
  { name: "equal connections, fewest open streams", takers: [taker("a", 1, 9), taker("b", 1, 3)], chosen: "b" },
  { name: "no worker, none", takers: [], chosen: undefined },
  { name: "all equal, the longest wait", takers: [taker("a", 1, 0, 7), taker("b", 1, 0, 4)], chosen: "b" },
])("of $name", ({ takers, chosen }) => {
  expect(choose(takers)).toBe(chosen);
});
