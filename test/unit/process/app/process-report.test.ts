// A report that another process has published counts as a whole, or not at all: it may be damaged, or of somebody else.

import { expect, test } from "vitest";
import { type ProcessReport, REPORT_FORM, readReport } from "../../../../src/process/app/process-report.ts";

const between = { least: 1, most: 2 };
const labels = { domain: "edge", rule: "user", limit: "" };
const row = {
  ...labels,
  text: { key: "{edge|user=ann}|fw/60", entries: undefined },
  asked: between,
  refused: between,
  refusedSinceUs: 1,
  lastRefusedUs: null,
};
const summary = { fromUs: 1, rows: [row], restAsked: 0, restRefused: 0, asked: 2, refused: 2 };
const condition = { id: "odd", severity: "warning", says: "Odd.", advice: "", see: "", sinceUs: 1 } as const;
const REPORT = {
  form: REPORT_FORM,
  name: "b:1",
  version: "1.0.0",
  conditions: [{ ...condition, details: ["one"], count: 2, causedBy: "even" }, condition],
  rules: { hash: null },
  top: { minute: summary, hour: summary },
} satisfies ProcessReport;

test("is read as it was written", () => {
  const text = JSON.stringify(REPORT);
  expect(readReport(text)).toEqual([JSON.parse(text)]);
});

test("with any part missing or of another kind is ignored", () => {
  const damaged = [...damages(JSON.parse(JSON.stringify(REPORT)))];
  const optional = ["details", "count", "causedBy"].map((name) => ({
    ...REPORT,
    conditions: [{ ...REPORT.conditions[0], [name]: undefined }, condition],
  }));
  const allowed = [...optional, REPORT].map((report) => JSON.stringify(report));
  const read = damaged.map((report) => JSON.stringify(report)).filter((text) => !allowed.includes(text));
  expect(read.filter((text) => readReport(text).length > 0)).toEqual([]);
  for (const text of ["", "{", "null", "[]", '"x"', '{"form":1}']) expect(readReport(text)).toEqual([]);
});

/** The value with each part replaced by what it can't be, one at a time. */
function* damages(value: unknown): Generator<unknown> {
  yield undefined;
  yield { another: 1 };
  yield 1e300;
  yield true;
  if (typeof value !== "object" || value === null) return;
  for (const [name, part] of Object.entries(value)) {
    for (const damaged of damages(part))
      yield Array.isArray(value) ? value.with(Number(name), damaged) : { ...value, [name]: damaged };
  }
}
