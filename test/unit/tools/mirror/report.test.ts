// The report as text, and the share of calls that decides an exit code.

import { describe, expect, test } from "vitest";
import { type MirrorReport, reportText, troubleShare } from "../../../../src/tools/mirror/report.ts";

const REPORT: MirrorReport = {
  answer_from: "old:8081",
  compare_with: "new:8081",
  seconds: 90_300.5,
  ignored: ["headers"],
  remaining_tolerance: 0,
  duration_tolerance_seconds: 1,
  calls: { relayed: 100, same: 90, different: 6, not_compared: { compared_too_slow: 4 }, not_answered: {} },
  differences_by_field: { limit: 6 },
  rules: [
    {
      domain: "edge",
      keys: "user\u001b[2J",
      answering_limit: "1/SECOND",
      compared_limit: "2/SECOND",
      calls: 6,
      over_only_answering: 2,
      over_only_compared: 0,
      fields: { limit: 6 },
    },
  ],
  recording: { file: "calls.jsonl", calls: 100, left_out: 3, failure: null },
  first_differences: [],
};

describe("a report", () => {
  test("says for people what differs, where, and what could not be compared", () => {
    const text = reportText(REPORT);
    expect(text).toContain("\n100 calls in 1 d 1 h\n");
    expect(text).toContain("96 compared: 90 equal, 6 different (6.3 %)");
    expect(text).toContain("not compared: 4 compared too slow");
    expect(text).toContain("duration within 1 s; ignored: headers");
    expect(text).toContain("[1/SECOND, compared: 2/SECOND]\n    6 calls; 2 / 0; limit 6");
    expect(text).toContain("recorded 100 calls to calls.jsonl, 3 left out");
  });

  test("moves no terminal's cursor, whatever callers name their keys", () => {
    expect(reportText(REPORT)).not.toContain("\u001b");
    expect(reportText(REPORT)).toContain("user\\x1b[2J");
  });

  test("of equal answers says no more than that", () => {
    const calls = { relayed: 9, same: 9, different: 0, not_compared: {}, not_answered: {} };
    const text = reportText({ ...REPORT, calls, rules: [], recording: null });
    expect(text).toContain("9 compared: 9 equal, 0 different\n");
    expect(text).not.toContain("what differed");
  });

  test("counts what was not compared as trouble, and without a compared target what was not answered", () => {
    expect(troubleShare(REPORT)).toBeCloseTo(0.1);
    const alone = { ...REPORT, compare_with: null, calls: { ...REPORT.calls, not_answered: { broken: 25 } } };
    expect(troubleShare(alone)).toBe(0.25);
    const calls = { relayed: 0, same: 0, different: 0, not_compared: {}, not_answered: {} };
    expect(troubleShare({ ...REPORT, calls })).toBe(0);
  });
});
