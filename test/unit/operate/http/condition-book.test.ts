// Since when things are wrong, and when a counter that should not move is at rest again.

import fc from "fast-check";
import { expect, test } from "vitest";
import type { Finding } from "../../../../src/operate/condition.ts";
import { ConditionBook, GrowthBook } from "../../../../src/operate/http/condition-book.ts";

const SECOND = 1_000_000;

function finding(id: string): Finding {
  return { id, severity: "warning", says: id, advice: "", see: "" };
}

test("a finding keeps the time of the first look that found it, until a look does not find it", () => {
  const book = new ConditionBook();
  const since = (ids: readonly string[], nowUs: number) =>
    Object.fromEntries(book.note(ids.map(finding), nowUs).map(({ id, sinceUs }) => [id, sinceUs]));
  expect(since(["a"], 1)).toEqual({ a: 1 });
  expect(since(["b", "a"], 2)).toEqual({ a: 1, b: 2 });
  expect(since(["b"], 3)).toEqual({ b: 2 });
  expect(since(["a", "b"], 4)).toEqual({ a: 4, b: 2 });
});

test("growth is counted from the last rest of a minute, and is over a minute after the last of it", () => {
  const book = new GrowthBook();
  expect(book.grown("x", 0, 0)).toBe(0);
  expect(book.grown("x", 3, 10 * SECOND)).toBe(3);
  expect(book.grown("x", 5, 40 * SECOND)).toBe(5);
  expect(book.grown("x", 5, 99 * SECOND)).toBe(5);
  expect(book.grown("x", 5, 100 * SECOND)).toBe(0);
  expect(book.grown("x", 6, 101 * SECOND)).toBe(1);
});

test("growth is never more than the counter, and more than nothing for a minute after each step", () => {
  const steps = fc.array(fc.record({ add: fc.nat(3), waitUs: fc.nat(90 * SECOND) }), { maxLength: 30 });
  fc.assert(
    fc.property(steps, (history) => {
      const book = new GrowthBook();
      let count = 0;
      let nowUs = 0;
      let grewUs = Number.NEGATIVE_INFINITY;
      for (const { add, waitUs } of history) {
        nowUs += waitUs;
        count += add;
        if (add > 0) grewUs = nowUs;
        const grown = book.grown("x", count, nowUs);
        expect(grown).toBeLessThanOrEqual(count);
        expect(grown > 0).toBe(nowUs - grewUs < 60 * SECOND);
        expect(grown).toBeGreaterThanOrEqual(add);
      }
    }),
  );
});
