// What rules have counted, with their values, in one process and over all workers.

import fc from "fast-check";
import { expect, test } from "vitest";
import { FleetRuleCounts, RULE_COUNT_METRICS, ruleCount } from "../../../src/operate/telemetry/rule-counts.ts";
import { LimitStatsBook } from "../../../src/operate/telemetry/stats-book.ts";
import { countsAlone } from "../../support/counts.ts";

const [HITS = "", REFUSED = ""] = RULE_COUNT_METRICS;

function bookOfTwo() {
  const book = new LimitStatsBook(2, countsAlone());
  const tenant = book.statsOf("edge", ["plan_free", "tenant"], "");
  return { book, tenant, other: book.statsOf("edge", ["tenant"], "") };
}

test("values of a rule count with it, those beyond METRIC_VALUES_MAX too", () => {
  const { book, tenant, other } = bookOfTwo();
  tenant.totalHits = 1;
  for (const value of ["a", "b", "c"]) {
    book.statsOfValues(tenant, ["plan_free", `tenant_${value}`]).totalHits += 10;
  }
  expect(ruleCount(book, tenant)).toEqual({ hits: 31, refused: 0, shadowed: 0 });
  expect(ruleCount(book, other)).toEqual({ hits: 0, refused: 0, shadowed: 0 });
  book.retainOnly(new Set([other]));
  expect(ruleCount(book, tenant).hits).toBe(0);
});

test("over all workers, rules are found by their labels, and values that this worker has never seen by their beginnings", () => {
  const { book, tenant, other } = bookOfTwo();
  const labels = (rule: string) => `{domain="edge",key1="x",key2="y",rule="${rule}",limit=""}`;
  const fleet = new FleetRuleCounts(
    {
      [HITS]: {
        [`${HITS}${labels("plan_free/tenant")}`]: 1,
        [`${HITS}{domain="edge",key1="plan_free",key2="tenant",rule="plan_free/tenant",limit=""}`]: 100,
        [`${HITS}${labels("plan_free/tenant_acme")}`]: 10,
        [`${HITS}${labels("tenant_acme")}`]: 5,
        [`${HITS}${labels("nobody")}`]: 7,
      },
      [REFUSED]: { [`${REFUSED}${labels("tenant_acme")}`]: 2 },
    },
    book,
  );
  expect(fleet.of(tenant)).toEqual({ hits: 111, refused: 0, shadowed: 0 });
  expect(fleet.of(other)).toEqual({ hits: 5, refused: 2, shadowed: 0 });
});

/** A book with these rules, each of which has counted so many of each value. */
function bookOf(rules: readonly { path: readonly string[]; hits: Readonly<Record<string, number>> }[]) {
  const book = new LimitStatsBook(100, countsAlone());
  const stats = rules.map(({ path }) => book.statsOf("edge", path, ""));
  for (const [i, { path, hits }] of rules.entries()) {
    for (const [value, count] of Object.entries(hits)) {
      const last = `${path.at(-1)}_${value}`;
      book.statsOfValues(stats[i] as never, [...path.slice(0, -1), last]).totalHits += count;
    }
  }
  return { book, stats };
}

function seriesOf(book: LimitStatsBook) {
  return {
    [HITS]: Object.fromEntries([...book.entries()].map(({ labels, stats }) => [`${HITS}{${labels}}`, stats.totalHits])),
  };
}

test("what another worker has counted on values is found with its own rule, whichever names begin alike", () => {
  // Without a _ in them names of rules tell where a value begins.
  const element = fc.stringMatching(/^[ab]{1,3}$/);
  const path = fc.array(element, { minLength: 1, maxLength: 3 });
  const hits = fc.dictionary(
    fc.string({ unit: fc.constantFrom("a", "b", "_", '"', "\\", "\n"), maxLength: 4 }),
    fc.nat(9),
  );
  const rules = fc.uniqueArray(fc.record({ path, hits }), { maxLength: 8, selector: ({ path: one }) => one.join("/") });
  fc.assert(
    fc.property(rules, (all) => {
      const other = bookOf(all);
      const { book, stats } = bookOf(all.map((one) => ({ ...one, hits: {} })));
      const fleet = new FleetRuleCounts(seriesOf(other.book), book);
      expect(stats.map((one) => fleet.of(one))).toEqual(other.stats.map((one) => ruleCount(other.book, one)));
    }),
  );
});

test.each([
  { name: "a rule whose name another's begins with", value: "mozilla", rule: "user_agent", counted: [0, 3, 0] },
  { name: "a value with slashes", value: "/api/v1", rule: "path", counted: [0, 0, 3] },
])("$name has what its values counted elsewhere", ({ value, rule, counted }) => {
  const paths = [["user"], ["user_agent"], ["path"]];
  const all = paths.map((path) => ({ path, hits: path[0] === rule ? { [value]: 3 } : {} }));
  const { book, stats } = bookOf(paths.map((path) => ({ path, hits: {} })));
  const fleet = new FleetRuleCounts(seriesOf(bookOf(all).book), book);
  expect(stats.map((one) => fleet.of(one).hits)).toEqual(counted);
});

test("values that callers make of slashes and underscores cost no more time than others", () => {
  // Each piece of the value could be the next level of a rule that lies deeper, which ends otherwise.
  const rules = [["a"], [...Array.from({ length: 9 }, () => "a"), "z"]];
  const values = Array.from({ length: 20 }, (_, i) => `${"/a_".repeat(22)}${i}`);
  const hits = Object.fromEntries(values.map((value) => [value, 1]));
  const other = bookOf(rules.map((path, i) => ({ path, hits: i === 0 ? hits : {} })));
  const { book, stats } = bookOf(rules.map((path) => ({ path, hits: {} })));
  const watch = process.cpuUsage();
  const fleet = new FleetRuleCounts(seriesOf(other.book), book);
  const { user } = process.cpuUsage(watch);
  expect(stats.map((one) => fleet.of(one).hits)).toEqual([20, 0]);
  // 20 lookups take some milliseconds; to try all ways to cut such a value takes many seconds.
  expect(user).toBeLessThan(500_000);
});
