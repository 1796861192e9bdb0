// What rules have counted, with their values.

import { expect, test } from "vitest";
import { ruleCount } from "../../../src/operate/telemetry/rule-counts.ts";
import { LimitStatsBook } from "../../../src/operate/telemetry/stats-book.ts";
import { countsAlone } from "../../support/counts.ts";

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
