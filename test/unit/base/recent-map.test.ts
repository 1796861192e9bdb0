// Which entries a bounded map keeps.

import { expect, test } from "vitest";
import { RecentMap } from "../../../src/base/recent-map.ts";

test("keeps what was used last, at most two generations of it", () => {
  const map = new RecentMap<string, number>(2);
  const kept = () => ["a", "b", "c", "d", "e", "f"].filter((key) => map.peek(key) !== undefined);
  for (const [at, key] of ["a", "b", "c", "d"].entries()) map.set(key, at);
  expect(kept()).toEqual(["a", "b", "c", "d"]);
  // Looking is no use, reading and writing are.
  map.peek("b");
  expect(map.get("a")).toBe(0);
  expect(kept()).toEqual(["a", "c", "d"]);
  map.set("a", 7);
  map.set("e", 4);
  map.set("f", 5);
  expect(kept()).toEqual(["a", "e", "f"]);
  expect(map.get("a")).toBe(7);
  map.clear();
  expect(kept()).toEqual([]);
});
