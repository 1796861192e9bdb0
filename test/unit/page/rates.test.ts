// Rates that the operator's page works out of counters, and the paths of its charts.

import fc from "fast-check";
import { expect, test } from "vitest";
import { pathOf } from "../../../page/charts.mjs";
import { LOOKS_MAX, latest, RateHistory } from "../../../page/rates.mjs";

const counts = (hits: number, id = "r") => new Map([[id, { hits }]]);

test("a rate is the growth between two looks by the time between them, as the server has it", () => {
  const history = new RateHistory();
  history.add("a", 0, counts(10));
  expect(history.rates("r", "hits")).toEqual([]);
  history.add("a", 2_000, counts(30));
  history.add("a", 6_000, counts(30));
  expect(history.rates("r", "hits")).toEqual([10, 0]);
});

test.each([
  { name: "a rule that is new", looks: [counts(1, "other"), counts(5)] },
  { name: "a counter that has fallen", looks: [counts(5), counts(4)] },
])("nothing is known of $name", ({ looks }) => {
  const history = new RateHistory();
  looks.forEach((look, i) => {
    history.add("a", i * 1_000, look);
  });
  expect(history.rates("r", "hits")).toEqual([null]);
  expect(latest(history.rates("r", "hits"))).toBe(null);
});

test("another process begins anew, a look that is no newer counts for nothing, a long silence is a gap", () => {
  const history = new RateHistory();
  history.add("a", 0, counts(10));
  history.add("b", 2_000, counts(3));
  expect(history.rates("r", "hits")).toEqual([]);
  history.add("b", 2_000, counts(99));
  history.add("b", 3_000, counts(4));
  history.add("b", 13_000, counts(14));
  expect(history.rates("r", "hits")).toEqual([1, null, 1]);
});

test("whatever counters do, rates are never below nothing, and no more than the charts hold are kept", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(20_000), fc.nat(1_000)), { maxLength: 200 }), (looks) => {
      const history = new RateHistory();
      let atMs = 0;
      for (const [waitMs, hits] of looks) {
        atMs += waitMs;
        history.add("a", atMs, counts(hits));
      }
      const rates = history.rates("r", "hits");
      expect(rates.length).toBeLessThanOrEqual(LOOKS_MAX);
      for (const rate of rates) if (rate !== null) expect(rate).toBeGreaterThanOrEqual(0);
    }),
  );
});

test("a chart ends at its right edge, and a gap divides its line", () => {
  expect(pathOf([0, 10], 2, false)).toBe("M118.0 27.0L120.0 7.0");
  expect(pathOf([5, null, 5], 1, false)).toBe("M115.9 22.0M120.0 22.0");
  expect(pathOf([1, 1, null], 1, true)).toBe("M115.9 26.0L118.0 26.0L118.0 28L115.9 28Z");
  expect(pathOf([], 1, true)).toBe("");
});
