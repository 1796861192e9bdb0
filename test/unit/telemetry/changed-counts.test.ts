// What a process tells of its counters between scrapes: only what has changed, all of it in the end.

import { beforeEach, expect, test } from "vitest";
import { ChangedCounts, TOLD_RULES_MAX } from "../../../src/operate/telemetry/changed-counts.ts";
import { LimitStatsBook } from "../../../src/operate/telemetry/stats-book.ts";
import { type Counts, readCounts } from "../../../src/operate/telemetry/sum-pages.ts";
import { countsAlone } from "../../support/counts.ts";

const HITS = "ratelimit_service_rate_limit_total_hits";
const OVER = "ratelimit_service_rate_limit_over_limit";

let page: string;
let statsBook: LimitStatsBook;
let rulesHash: string;
let changed: ChangedCounts;
beforeEach(() => {
  page = "";
  statsBook = new LimitStatsBook(200, countsAlone());
  rulesHash = "a";
  changed = new ChangedCounts({ page: () => page, series: statsBook, rulesHash: () => rulesHash });
});

function ruleOf(key: string) {
  return statsBook.statsOf("edge", [key], "");
}

/** What was told by the next call, by metric. */
function next(): Readonly<Record<string, readonly number[]>> {
  const counts: Counts = new Map();
  readCounts(changed.take().text, counts);
  return Object.fromEntries([...counts].map(([metric, series]) => [metric, [...series.values()]]));
}

test("counters and histograms are told when they have changed, gauges never", () => {
  const histogram = '# TYPE h histogram\nh_bucket{le="1"} 1\nh_sum 0.5\nh_count 1\n';
  page = `# HELP a_total A.\n# TYPE a_total counter\na_total{x="1"} 1\na_total{x="2"} 1\n# TYPE g gauge\ng 7\n${histogram}`;
  expect(next()).toEqual({ a_total: [1, 1], h: [1, 0.5, 1] });
  expect(next()).toEqual({});
  page = page.replace('a_total{x="2"} 1', 'a_total{x="2"} 5').replace("g 7", "g 8");
  expect(next()).toEqual({ a_total: [5] });
});

test("a rule is told when one of its counters has changed, and not before its first hit", () => {
  const stats = ruleOf("a");
  expect(next()).toEqual({});
  stats.totalHits = 3;
  expect(next()).toMatchObject({ [HITS]: [3], [OVER]: [0] });
  expect(next()).toEqual({});
  stats.overLimit = 1;
  expect(next()).toMatchObject({ [HITS]: [3], [OVER]: [1] });
});

test("of holds are told what only grows", () => {
  const stats = ruleOf("a");
  Object.assign(stats, { totalHits: 3, holdsOpened: 2, holdsLive: 2 });
  const told = next();
  expect(told).toMatchObject({ headgate_hold_opened_total: [2] });
  expect(told).not.toHaveProperty("headgate_hold_live");
});

test("many rules are told over several calls, none twice and none left out, whatever moves meanwhile", () => {
  const all = Array.from({ length: 2 * TOLD_RULES_MAX + 10 }, (_, i) => ruleOf(`k${i}`));
  for (const stats of all) stats.totalHits = 1;
  const first = next();
  // Those at the front go on moving, and must not keep the others from their turn.
  for (const stats of all.slice(0, TOLD_RULES_MAX)) stats.totalHits = 2;
  const told = [first, next(), next()].map((counts) => counts[HITS] ?? []);
  expect(told.map(({ length }) => length)).toEqual([TOLD_RULES_MAX, TOLD_RULES_MAX, 10]);
  expect(new Set(told.flat())).toEqual(new Set([1]));
  expect(next()[HITS]).toEqual(Array(TOLD_RULES_MAX).fill(2));
});

test("with other rules in force all of them are told again, and that they are", () => {
  ruleOf("a").totalHits = 1;
  expect(changed.take().isAfresh).toBe(true);
  expect(changed.take()).toEqual({ text: "", isAfresh: false });
  rulesHash = "b";
  const told = changed.take();
  expect([told.isAfresh, told.text.includes(`${HITS}{`)]).toEqual([true, true]);
});
