// What an operator is told is wrong, and that each word of advice leads to a heading that is there.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { findConditions, type ProcessFacts } from "../../../src/operate/http/find-conditions.ts";

const WELL: ProcessFacts = {
  troubles: new Map(),
  notes: new Map(),
  breakers: new Map(),
  rules: { areInForce: true, lastFailure: undefined },
  planeRefusal: undefined,
  certificate: undefined,
  unmatched: [],
  mishaps: { degraded: 0, overloaded: 0, internalErrors: 0, loopLate: 0, damaged: 0, evicted: 0, lateReports: 0 },
};
const DAY = 86_400;
const FAILURE = {
  atUs: 0,
  part: "set",
  message: "the rules can't be used",
  problems: [
    { severity: "warning", file: "a.yaml", line: 1, column: 1, message: "odd" },
    { severity: "error", file: "a.yaml", line: 2, column: 3, message: "wrong", suggestion: "Did you mean 'x'?" },
  ],
} as const;
const PLANE_REFUSAL = { atUs: 0, version: "7", message: "" };

test("nothing is wrong: nothing is said", () => {
  expect(findConditions(WELL)).toEqual([]);
});

const CASES: readonly {
  name: string;
  facts: Partial<ProcessFacts>;
  severity: string;
  says: RegExp;
  details?: string[];
  count?: number;
}[] = [
  {
    name: "a store that is away",
    facts: { notes: new Map([["store", "Redis does not answer"]]) },
    severity: "critical",
    says: /^Redis does not answer\.$/,
  },
  {
    name: "the same store as a trouble and as a note, once",
    facts: { notes: new Map([["store", "away"]]), troubles: new Map([["store", "away"]]) },
    severity: "critical",
    says: /^Away\.$/,
  },
  {
    name: "an open breaker, by its server",
    facts: { breakers: new Map([["Redis at a:1", "open"]]) },
    severity: "critical",
    says: /^The breaker of Redis at a:1 is open/,
  },
  {
    name: "refused rules, each mistake with its place",
    facts: { rules: { areInForce: true, lastFailure: FAILURE } },
    severity: "critical",
    says: /^New rules rejected: The rules can't be used\. The previous rules stay active\.$/,
    details: ["a.yaml:2:3: error: wrong. Did you mean 'x'?"],
  },
  {
    name: "refused rules at a start, which are no trouble of their own beside",
    facts: {
      rules: { areInForce: false, lastFailure: FAILURE },
      troubles: new Map([["rules", "no rules are in force: the rules can't be used"]]),
    },
    severity: "critical",
    says: /No rules are active, so calls get no decision\.$/,
    details: ["a.yaml:2:3: error: wrong. Did you mean 'x'?"],
  },
  {
    name: "a set that a control plane was told is refused",
    facts: { rules: { areInForce: true, lastFailure: FAILURE }, planeRefusal: PLANE_REFUSAL },
    severity: "critical",
    says: /^Version 7 of the control plane's rules rejected \(NACK\)/,
    details: ["a.yaml:2:3: error: wrong. Did you mean 'x'?"],
  },
  {
    name: "files beside a control plane that are refused, while its set is, too",
    facts: { rules: { areInForce: true, lastFailure: { ...FAILURE, part: "files" } }, planeRefusal: PLANE_REFUSAL },
    severity: "critical",
    says: /^New rules rejected/,
    details: ["a.yaml:2:3: error: wrong. Did you mean 'x'?"],
  },
  {
    name: "a certificate that has expired",
    facts: { certificate: { remainingSeconds: 0, lifetimeSeconds: 90 * DAY } },
    severity: "critical",
    says: /has expired/,
  },
  {
    name: "one that should have been renewed",
    facts: { certificate: { remainingSeconds: 9 * DAY, lifetimeSeconds: 90 * DAY } },
    severity: "warning",
    says: /expires in 9 days\.$/,
  },
  {
    name: "descriptors without a rule",
    facts: { unmatched: [{ domain: "edge", hasRules: true, descriptors: 2, exampleKeys: ["a", "b"] }] },
    severity: "warning",
    says: /domain edge meet no rule.*keys a, b\.$/,
  },
  {
    name: "a domain without rules",
    facts: { unmatched: [{ domain: "egde", hasRules: false, descriptors: 2, exampleKeys: [] }] },
    severity: "warning",
    says: /^Calls name domain egde, which has no rules/,
  },
  {
    name: "calls that were turned away",
    facts: { mishaps: { ...WELL.mishaps, overloaded: 12 } },
    severity: "critical",
    says: /^calls were turned away.*IN_FLIGHT_MAX/,
    count: 12,
  },
  {
    name: "a part that nobody has advice for",
    facts: { notes: new Map([["snapshots of something", "no"]]) },
    severity: "warning",
    says: /^No\.$/,
  },
];

test.each(CASES)("$name", ({ facts, severity, says, details, count }) => {
  const found = findConditions({ ...WELL, ...facts });
  expect(found).toHaveLength(1);
  expect(found[0]).toMatchObject({
    severity,
    says: expect.stringMatching(says),
    ...(details === undefined ? {} : { details }),
    ...(count === undefined ? {} : { count }),
  });
});

test("a certificate that has long to go, or little of a short time but enough of it, is no matter", () => {
  for (const [remaining, whole] of [
    [15, 90],
    [0.5, 1],
  ] as const) {
    const certificate = { remainingSeconds: remaining * DAY, lifetimeSeconds: whole * DAY };
    expect(findConditions({ ...WELL, certificate })).toEqual([]);
  }
});

test("of very many mistakes the first are named, and how many there are", () => {
  const problems = Array.from({ length: 30 }, (_, i) => ({ ...FAILURE.problems[1], line: i + 1 }));
  const [found] = findConditions({ ...WELL, rules: { areInForce: true, lastFailure: { ...FAILURE, problems } } });
  expect(found?.details).toHaveLength(21);
  expect(found?.details?.at(-1)).toBe("and 10 more; /config has them all");
});

test("all advice leads to headings of docs/operations.md", () => {
  const page = readFileSync(resolve(import.meta.dirname, "../../../docs/operations.md"), "utf8");
  const headings = [...page.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replace(/[^\w\s-]/g, "")
      .replaceAll(" ", "-"),
  );
  const parts = [
    "store",
    "rules",
    "control plane",
    "certificates",
    "snapshot",
    "workers",
    "start",
    "shutdown",
    "other",
  ];
  const mishaps = Object.fromEntries(Object.keys(WELL.mishaps).map((id) => [id, 1])) as ProcessFacts["mishaps"];
  const all = findConditions({
    ...WELL,
    mishaps,
    notes: new Map(parts.map((part) => [part, "wrong"])),
    ...Object.assign({}, ...CASES.slice(2).map(({ facts }) => (facts.notes === undefined ? facts : {}))),
  });
  expect(all.length).toBeGreaterThan(10);
  expect([...all.map(({ see }) => see), "headgaterulesdiffer"].filter((see) => !headings.includes(see))).toEqual([]);
});
