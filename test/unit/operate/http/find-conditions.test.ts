// What an operator is told is wrong, and that each word of advice leads to a heading that is there.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { DomainStats } from "../../../../src/engine/domain/stats.ts";
import { findConditions, type ProcessFacts } from "../../../../src/operate/http/find-conditions.ts";
import type { UnmatchedEntry } from "../../../../src/operate/telemetry/domain-book.ts";
import { compileYaml } from "../../../support/rules.ts";

/** Counters of which those of these domains have moved. */
function countsOf(unmatched: readonly UnmatchedEntry[]): ProcessFacts["counts"] {
  const entries = () => unmatched.map((entry) => ({ ...entry, stats: { descriptors: entry.descriptors } }));
  return { calls: { domains: { entries }, unserved: {} }, store: {} } as unknown as ProcessFacts["counts"];
}
const unmatchedIn = (entry: UnmatchedEntry) => ({
  counts: countsOf([entry]),
  ...grownOnly(`unmatched ${entry.domain}`),
});
const grownOnly = (id: string) => ({ grown: (each: string) => (each === id ? 12 : 0) });

const WELL: ProcessFacts = {
  troubles: new Map(),
  notes: new Map(),
  breakers: new Map(),
  rules: { areInForce: true, lastFailure: undefined },
  planeRefusal: undefined,
  certificate: undefined,
  limitsTrouble: undefined,
  idleLimits: [],
  clockSet: undefined,
  counts: countsOf([]),
  deadLimits: [],
  requiring: [],
  undecided: { rows: [], limits: [] },
  grown: () => 0,
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

const DEAD = {
  id: "edge/a",
  where: "a.yaml:1:1",
  matchedUs: undefined,
  sinceUs: 0,
  calls: 20_000,
  why: "it is misspelt",
};
const MISTAKE = ["a.yaml:2:3: error: wrong. Did you mean 'x'?"];

const finding =
  (severity: string) =>
  (says: RegExp, more: object = {}) =>
    expect.objectContaining({ severity, says: expect.stringMatching(says), ...more });
const [critical, warning] = [finding("critical"), finding("warning")];

const CASES: readonly (readonly [name: string, facts: Partial<ProcessFacts>, found: unknown])[] = [
  [
    "a store that is away",
    { notes: new Map([["store", "Redis does not answer"]]) },
    critical(/^Redis does not answer\.$/),
  ],
  [
    "the same store as a trouble and as a note, once",
    { notes: new Map([["store", "away"]]), troubles: new Map([["store", "away"]]) },
    critical(/^Away\.$/),
  ],
  [
    "an open breaker, by its server",
    { breakers: new Map([["Redis at a:1", "open"]]) },
    critical(/^The breaker of Redis at a:1 is open/),
  ],
  [
    "refused rules, each mistake with its place",
    { rules: { areInForce: true, lastFailure: FAILURE } },
    critical(/^New rules rejected: The rules can't be used\. The previous rules stay active\.$/, { details: MISTAKE }),
  ],
  [
    "rejected rules at a start, which add no second condition",
    {
      rules: { areInForce: false, lastFailure: FAILURE },
      troubles: new Map([["rules", "no rules are in force: the rules can't be used"]]),
    },
    critical(/No rules are active, so calls get no decision\.$/, { details: MISTAKE }),
  ],
  [
    "a control plane's set that was rejected (NACK)",
    { rules: { areInForce: true, lastFailure: FAILURE }, planeRefusal: PLANE_REFUSAL },
    critical(/^Version 7 of the control plane's rules rejected \(NACK\)/, { details: MISTAKE }),
  ],
  [
    "rejected files next to a control plane whose set was rejected, too",
    { rules: { areInForce: true, lastFailure: { ...FAILURE, part: "files" } }, planeRefusal: PLANE_REFUSAL },
    critical(/^New rules rejected/, { details: MISTAKE }),
  ],
  [
    "a certificate that has expired",
    { certificate: { remainingSeconds: 0, lifetimeSeconds: 90 * DAY } },
    critical(/has expired/),
  ],
  [
    "one that should have been renewed",
    { certificate: { remainingSeconds: 9 * DAY, lifetimeSeconds: 90 * DAY } },
    warning(/expires in 9 days\.$/),
  ],
  [
    "descriptors without a rule",
    unmatchedIn({ domain: "edge", hasRules: true, descriptors: 2, exampleKeys: ["a", "b"] }),
    warning(/domain edge match no rule.*keys a, b\.$/),
  ],
  [
    "a domain without rules",
    unmatchedIn({ domain: "egde", hasRules: false, descriptors: 2, exampleKeys: [] }),
    warning(/^Calls name domain egde, which has no rules/),
  ],
  ["calls that were turned away", grownOnly("overloaded"), critical(/^Calls rejected.*IN_FLIGHT_MAX/, { count: 12 })],
  [
    "limits at run time that can't be brought up to date",
    { limitsTrouble: "the file can't be written" },
    warning(/^Can't update limits at run time: The file can't be written\.$/, { causedBy: "store" }),
  ],
  [
    "limits at run time that do nothing",
    { idleLimits: ["edge tenant=acme: no rule with limits matches, so it does nothing"] },
    warning(/^Limits at run time do nothing/, { details: [expect.stringContaining("tenant=acme")] }),
  ],
  [
    "a host's clock that was set within the hour",
    { clockSet: { seconds: -7_200, secondsAgo: 3_599 } },
    warning(/^The host's clock was set: 7200 s back since the start\.$/),
  ],
  [
    "rules that match no call, each with its cause",
    { deadLimits: [{ domain: "edge", count: 3, rules: [DEAD, { ...DEAD, id: "edge/b", matchedUs: 0 }] }] },
    warning(/^3 rules of edge with limits match no call\.$/, {
      id: "dead limits edge",
      details: [
        "edge/a (a.yaml:1:1): matched none of 20,000 calls since 1970-01-01T00:00:00.000Z; it is misspelt",
        "edge/b (a.yaml:1:1): matched none of 20,000 calls since the last match at 1970-01-01T00:00:00.000Z; it is misspelt",
        "and 1 more",
      ],
    }),
  ],
  [
    "calls without an entry that their domain requires",
    {
      requiring: [{ domain: "edge", required: { keys: ["tenant"], refuses: true }, stats: new DomainStats() }],
      ...grownOnly("incomplete edge"),
    },
    warning(/^Calls of domain edge without 'tenant', which it requires \(on_missing: refuse\)$/, { count: 12 }),
  ],
  [
    "calls that passed without a decision",
    {
      undecided: {
        rows: [{ cause: "STORE_TIMEOUT", last_hour: 2, last_day: 5, first_at: "A", last_at: "B" }],
        limits: ["edge/a", "edge/b"],
      },
    },
    warning(/^Calls passed without a decision .*: 2 in the last hour, 5 in the last day\.$/, {
      calls: [{ cause: "STORE_TIMEOUT", last_hour: 2, last_day: 5, first_at: "A", last_at: "B" }],
      details: ["limits not applied: edge/a, edge/b"],
    }),
  ],
  ["a part that nobody has advice for", { notes: new Map([["snapshots of something", "no"]]) }, warning(/^No\.$/)],
];

test.each(CASES)("%s", (_, facts, found) => {
  expect(findConditions({ ...WELL, ...facts })).toEqual([found]);
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

test("the rule that is advised for descriptors without one is what rule files take", () => {
  const entry = { domain: "edge", hasRules: true, descriptors: 1, exampleKeys: [] };
  const [found] = findConditions({ ...WELL, ...unmatchedIn(entry) });
  const [, rule = ""] = /`(.*?)`/.exec(found?.advice ?? "") ?? [];
  const { problems } = compileYaml(`domain: edge\ndescriptors:\n  - key: a\n    ${rule}\n`);
  expect([rule, problems]).toEqual(["rate_limit: { unlimited: true }", []]);
});

test("all advice leads to headings of docs/operations.md", () => {
  const page = readFileSync(resolve(import.meta.dirname, "../../../../docs/operations.md"), "utf8");
  const headings = [...page.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replace(/[^\w\s-]/g, "")
      .replaceAll(" ", "-"),
  );
  const parts = "store,rules,limits,control plane,certificates,snapshot,start,shutdown,other".split(",");
  const all = findConditions({
    ...WELL,
    grown: () => 1,
    limitsTrouble: "wrong",
    idleLimits: ["one"],
    notes: new Map(parts.map((part) => [part, "wrong"])),
    ...Object.assign({}, ...CASES.slice(2).map(([, facts]) => (facts.notes === undefined ? facts : {}))),
  });
  expect(all.length).toBeGreaterThan(10);
  expect([...all.map(({ see }) => see), "headgaterulesdiffer"].filter((see) => !headings.includes(see))).toEqual([]);
});
