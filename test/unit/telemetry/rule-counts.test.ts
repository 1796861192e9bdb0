// What rules have counted, with their values, in one process and over all workers.

import { expect, test } from "vitest";
import { FleetRuleCounts, ownRuleCount, RULE_COUNT_METRICS } from "../../../src/telemetry/rule-counts.ts";
import { LimitStatsBook } from "../../../src/telemetry/stats-book.ts";

const [HITS = "", REFUSED = ""] = RULE_COUNT_METRICS;

function bookOfTwo() {
  const book = new LimitStatsBook(2);
  const tenant = book.statsOf("edge", ["plan_free", "tenant"], "");
  return { book, tenant, other: book.statsOf("edge", ["tenant"], "") };
}

test("values of a rule count with it, those beyond METRIC_VALUES_MAX too", () => {
  const { book, tenant, other } = bookOfTwo();
  tenant.totalHits = 1;
  for (const value of ["a", "b", "c"]) {
    book.statsOfValues(tenant, "edge", ["plan_free", `tenant_${value}`], "").totalHits += 10;
  }
  expect(ownRuleCount(book, tenant)).toEqual({ hits: 31, refused: 0, shadowed: 0 });
  expect(ownRuleCount(book, other)).toEqual({ hits: 0, refused: 0, shadowed: 0 });
  book.retainOnly(new Set([other]));
  expect(ownRuleCount(book, tenant).hits).toBe(0);
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
