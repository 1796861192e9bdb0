// Which connection goes when a process has more than its share.

import { expect, test } from "vitest";
import { chooseConnection, MovingAverage, SAMPLE_MS } from "../../../src/grpc/transport/connection-loads.ts";

test.each([
  { name: "of four alike any one, the first", loads: [50, 50, 50, 50], surplus: 200, chosen: 0 },
  { name: "the one nearest to half of the surplus", loads: [90, 10, 45, 55], surplus: 100, chosen: 2 },
  { name: "a small one where the large one would only swap the two", loads: [100, 4], surplus: 100, chosen: 1 },
  { name: "none where each is as large as the surplus", loads: [60, 60], surplus: 60, chosen: undefined },
  { name: "none that does nothing", loads: [100, 0, 0.1], surplus: 100, chosen: undefined },
  { name: "none of none", loads: [], surplus: 100, chosen: undefined },
])("chooses $name", ({ loads, surplus, chosen }) => {
  expect(chooseConnection(loads, surplus)).toBe(chosen);
});

test("an average takes seconds to follow and is no sample", () => {
  const average = new MovingAverage();
  average.add(100);
  expect(average.value).toBeLessThan(3);
  for (let ms = 0; ms < 10_000; ms += SAMPLE_MS) average.add(100);
  expect(average.value).toBeGreaterThan(97);
});
