// Series of rules: bounded per domain, never falling, and their sums what was counted, whatever is hit and reloaded.

import * as fc from "fast-check";
import { expect, test } from "vitest";
import { runThrough } from "../../src/base/long-work.ts";
import { RULE_COUNTERS } from "../../src/operate/telemetry/metrics.ts";
import { SeriesBook } from "../../src/operate/telemetry/series-book.ts";
import { LimitStatsBook } from "../../src/operate/telemetry/stats-book.ts";

const RULES_MAX = 3;
const DOMAINS = ["edge", "mesh"];
const KEYS = ["a", "b", "c", "d", "e", "f"];

const rule = fc.tuple(fc.constantFrom(...DOMAINS), fc.constantFrom(...KEYS));
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant("hit" as const), rule, hits: fc.integer({ min: 1, max: 9 }) }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("scrape" as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("reload" as const), keys: fc.subarray(KEYS) }) },
);

// Promise(operators): Metric series of rules are bounded per domain, begin with the first hit, never fall, and lose nothing.
test("series are those that were hit, bounded per domain, and stay; all that a domain counted is in their sum", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const book = new LimitStatsBook(200);
      const series = new SeriesBook(book, RULES_MAX);
      let keys: readonly string[] = KEYS;
      const shown = new Map<string, number>();
      const lost = new Map(DOMAINS.map((domain) => [domain, 0]));
      const counted = new Map(DOMAINS.map((domain) => [domain, 0]));
      const scrape = () => {
        const now = [...series.entries()];
        expect(new Set(now.map(({ labels }) => labels)).size).toBe(now.length);
        for (const domain of DOMAINS) {
          const own = now.filter((entry) => entry.domain === domain && !entry.labels.includes("(other rules)"));
          expect(own.length).toBeLessThanOrEqual(RULES_MAX);
          const sum = now.reduce((all, entry) => all + (entry.domain === domain ? entry.stats.totalHits : 0), 0);
          expect(sum).toBe((counted.get(domain) ?? 0) - (lost.get(domain) ?? 0));
        }
        for (const { labels, stats } of now) {
          expect(stats.totalHits).toBeGreaterThan(0);
          expect(stats.totalHits).toBeGreaterThanOrEqual(shown.get(labels) ?? 0);
        }
        // A series that was there is there.
        for (const labels of shown.keys()) expect(now.some((entry) => entry.labels === labels)).toBe(true);
        shown.clear();
        for (const { labels, stats } of now) shown.set(labels, stats.totalHits);
        return now;
      };
      for (const one of steps) {
        if (one.kind === "scrape") scrape();
        else if (one.kind === "hit") {
          const [domain, key] = one.rule;
          if (!keys.includes(key)) continue;
          book.statsOf(domain, [key], "").totalHits += one.hits;
          counted.set(domain, (counted.get(domain) ?? 0) + one.hits);
        } else {
          const before = scrape();
          keys = one.keys;
          runThrough(
            book.retainOnly(new Set(DOMAINS.flatMap((domain) => keys.map((key) => book.statsOf(domain, [key], ""))))),
          );
          // The series of a dropped rule goes; what was added up stays, unless the domain has nothing left.
          for (const { domain, labels, path } of before) {
            const isOther = labels.includes("(other rules)");
            const isGone = isOther
              ? ![...series.entries()].some((entry) => entry.labels === labels)
              : !keys.includes(path[0] ?? "");
            if (!isGone) continue;
            lost.set(domain, (lost.get(domain) ?? 0) + (shown.get(labels) ?? 0));
            shown.delete(labels);
          }
        }
      }
      scrape();
    }),
  );
});

test("live holds of a rule go with it, and are in the sum of further rules while it is there", () => {
  const book = new LimitStatsBook(200);
  const series = new SeriesBook(book, 1);
  for (const key of ["a", "b"]) Object.assign(book.statsOf("edge", [key], ""), { totalHits: 1, holdsLive: 4 });
  expect([...series.entries()].map(({ stats }) => stats.holdsLive)).toEqual([4, 4]);
  runThrough(book.retainOnly(new Set([book.statsOf("edge", ["a"], "")])));
  expect([...series.entries()].map(({ stats }) => [stats.totalHits, stats.holdsLive])).toEqual([
    [1, 4],
    [1, 0],
  ]);
});

test("of values whose labels are equal the first has the series, the others are with other rules", () => {
  const book = new LimitStatsBook(200);
  const series = new SeriesBook(book, 10);
  const [a, ab] = [book.statsOf("edge", ["a"], ""), book.statsOf("edge", ["a_b"], "")];
  const shown = () => [...series.entries()].map(({ path, stats }) => [path.join("/"), stats.totalHits]);
  book.statsOfValues(a, ["a_b_c"]).totalHits = 3;
  expect(shown()).toEqual([["a_b_c", 3]]);
  book.statsOfValues(ab, ["a_b_c"]).totalHits = 4;
  const both = [
    ["a_b_c", 3],
    ["/(other rules)", 4],
  ];
  expect([shown(), shown()]).toEqual([both, both]);
  runThrough(book.retainOnly(new Set([ab])));
  expect(shown()).toEqual([["/(other rules)", 4]]);
  runThrough(book.retainOnly(new Set()));
  expect(shown()).toEqual([]);
});

test("a value that reads like the one for all further values is one with it", () => {
  const book = new LimitStatsBook(1);
  const rule = book.statsOf("edge", ["a"], "x");
  for (const value of ["b", "other", "c"]) book.statsOfValues(rule, [`a_${value}`]).totalHits++;
  const shown = [...new SeriesBook(book, 10).entries()].map(({ labels, stats }) => [labels, stats.totalHits]);
  expect(shown).toEqual([
    ['domain="edge",key1="a_b",key2="",rule="a_b",limit="x"', 1],
    ['domain="edge",key1="a_other",key2="",rule="a_other",limit="x"', 2],
  ]);
});

test("sums hold every field, in every step exact", () => {
  const book = new LimitStatsBook(200);
  const series = new SeriesBook(book, 1);
  const fields = RULE_COUNTERS;
  for (const key of ["a", "b", "c"]) {
    const stats = book.statsOf("edge", [key], "");
    for (const [i, field] of fields.entries()) stats[field] = i + 1;
  }
  const [own, other] = [...series.entries()];
  expect(fields.map((field) => own?.stats[field])).toEqual(fields.map((_, i) => i + 1));
  expect(fields.map((field) => other?.stats[field])).toEqual(fields.map((_, i) => 2 * (i + 1)));
});
