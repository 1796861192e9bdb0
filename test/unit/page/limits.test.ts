// What the operator's page says of limits at run time.

import { expect, test } from "vitest";
import { callerWords, countsWords, endWords, labelOf, processesWords } from "../../../page/limits.mjs";

test.each([
  [{}, "None in force."],
  [{ block: 1 }, "1 caller: 1 blocked."],
  [
    { amounts: 60_000, use: 1, exempt: 2 },
    "60,003 callers: 60,000 with other amounts, 1 with another tier, 2 exempt. The newest 100 are listed; `headgate limits list` has all.",
  ],
])("counts %j as %s", (counts, words) => {
  expect(countsWords(counts)).toBe(words);
});

test("an end is a time and how long it is until then, by the server's clock", () => {
  expect(endWords("2026-11-27T18:30:00Z", "2026-11-27T17:00:00Z")).toMatch(/^\d\d:\d\d:00 \(in 1 h 30 min\)$/);
  expect(endWords(undefined, "2026-11-27T17:00:00Z")).toBe("never");
});

test.each([
  ["edge/tenant#per-day", "per-day"],
  ["edge/tenant", ""],
  ["edge/tenant/plan#x", ""],
])("the limit %s of the rule tenant is changed as '%s'", (id, label) => {
  expect(labelOf(id, "edge", "tenant")).toBe(label);
});

test.each([
  [undefined, "Set. No process has confirmed it yet."],
  [{ count: 1, confirmed: 1, waiting: [] }, "In force in 1 of 1 process."],
  [{ count: 3, confirmed: 1, waiting: ["a", "b"] }, "In force in 1 of 3 processes. Not confirmed: a, b."],
])("processes %j are %s", (processes, words) => {
  expect(processesWords(processes)).toBe(words);
});

test("a value of bytes is named by its base64", () => {
  const entries = [
    { key: "a", value: "1" },
    { key: "b", value: "\ufffd", value_base64: "/w==" },
  ];
  expect(callerWords({ domain: "edge", entries })).toBe("a=1,b=(bytes) /w==");
});
