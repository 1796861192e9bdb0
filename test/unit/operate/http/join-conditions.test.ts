// The JSON of GET /state: what several processes say becomes one, and the table of rules stays readable however many
// there are.

import { expect, test } from "vitest";
import { runThrough } from "../../../../src/base/long-work.ts";
import type { Limit } from "../../../../src/engine/domain/limit.ts";
import type { RuleCount } from "../../../../src/engine/domain/stats.ts";
import type { RuleSet } from "../../../../src/engine/rules/rule-set.ts";
import type { Condition } from "../../../../src/operate/condition.ts";
import { joinConditions, type ProcessState, viewConditions } from "../../../../src/operate/http/join-conditions.ts";
import { type RulesQuestion, ruleRows } from "../../../../src/operate/http/rule-rows.ts";
import { rulesFromYaml } from "../../../support/rules.ts";

const SECOND = 1_000_000;
const NONE = { hits: 0, refused: 0, shadowed: 0 };

const rowsOf = (
  rules: RuleSet | undefined,
  countOf: (limit: Limit) => RuleCount,
  sightOf: Parameters<typeof ruleRows>[2]["watch"]["sightOf"] = () => undefined,
  asked: Partial<RulesQuestion> = {},
) => {
  const question = { find: "", by: "file" as const, domain: undefined, all: true, after: 0, count: 200, ...asked };
  const watch = { sightOf, deadStats: new Set<never>() };
  return runThrough(ruleRows(rules, question, { countOf, watch, changed: new Set() }));
};

function condition(id: string, sinceS: number, says = id): Condition {
  return { id, severity: "warning", says, advice: "", see: "", sinceUs: sinceS * SECOND };
}

const view = (processes: readonly ProcessState[]) => viewConditions(joinConditions(processes, 100 * SECOND));

test("reports once what several processes report, since the first saw it, with their counts added up", () => {
  const conditions = view([
    { name: "a:1", conditions: [condition("store", 50), condition("x", 9, "five")], rules: { hash: "a" } },
    { name: "b:1", conditions: [condition("store", 40), condition("x", 8, "six")], rules: { hash: "a" } },
    { name: "c:1", conditions: [{ ...condition("late", 60, "Late answers"), count: 2 }], rules: { hash: "a" } },
    { name: "d:1", conditions: [{ ...condition("late", 70, "Late answers"), count: 3 }], rules: { hash: "a" } },
  ]);
  expect(
    conditions.map(({ says, since, seen_by: seenBy, details }) => [says, since.slice(17, 19), seenBy, details]),
  ).toEqual([
    ["five", "08", ["a:1", "b:1"], ["b:1: six"]],
    ["store", "40", ["a:1", "b:1"], []],
    ["Late answers: 5; the last within a minute.", "00", ["c:1", "d:1"], []],
  ]);
});

test("of several processes each has what it says, symptoms included, and calls that passed undecided add up", () => {
  const passed = { cause: "STORE_TIMEOUT", last_hour: 2, last_day: 5, first_at: "B", last_at: "C" };
  const state = (name: string, says: string, first: string): ProcessState => ({
    name,
    conditions: [
      condition("store", 9, says),
      { ...condition("undecided", 9), causedBy: "store", calls: [{ ...passed, first_at: first }] },
    ],
    rules: { hash: "a" },
  });
  expect(view([state("a:1", "Redis is slow.", "B"), state("b:1", "Redis refuses.", "A")])).toMatchObject([
    {
      says: "Redis is slow.",
      calls: [{ ...passed, last_hour: 4, last_day: 10, first_at: "A" }],
      by_process: [
        { process: "a:1", details: ["Redis is slow.", "undecided"] },
        { process: "b:1", details: ["Redis refuses.", "undecided"] },
      ],
    },
  ]);
});

test("reports both of two conditions that name each other as the cause, as those of two versions may", () => {
  const found = [
    { ...condition("one", 1), causedBy: "other" },
    { ...condition("other", 2), causedBy: "one" },
  ];
  expect(
    viewConditions(joinConditions([{ name: undefined, conditions: found, rules: { hash: "a" } }], 0)),
  ).toMatchObject([{ id: "one" }, { id: "other" }]);
});

test("a condition with a cause is a detail of that cause, and reported alone without it; critical ones come first, and causes before counts", () => {
  const symptoms = [
    { ...condition("breaker", 30, "The breaker is open."), causedBy: "store" },
    { ...condition("degraded", 20, "Calls without the store"), causedBy: "store", count: 1 },
  ];
  const symptom = "Calls without the store: 1; the last within a minute.";
  const store: Condition = { ...condition("store", 40), severity: "critical" };
  const conditions = [...symptoms, condition("older", 10), store];
  const both = view([{ name: undefined, conditions, rules: { hash: "a" } }]);
  expect(both).toEqual([
    expect.objectContaining({ id: "store", details: ["The breaker is open.", symptom] }),
    expect.objectContaining({ id: "older" }),
  ]);
  const alone = view([{ name: undefined, conditions: symptoms, rules: { hash: "a" } }]);
  expect(alone.map(({ says }) => says)).toEqual(["The breaker is open.", symptom]);
});

test("processes that decide by different rules are listed by their hashes, since the newest rules came", () => {
  const processes = [
    { name: "a:1", conditions: [], rules: { hash: "a".repeat(64), loadedAtUs: 10 * SECOND } },
    { name: "b:1", conditions: [], rules: { hash: "b".repeat(64), loadedAtUs: 30 * SECOND } },
    { name: "c:1", conditions: [], rules: { hash: null } },
  ];
  expect(view(processes)).toMatchObject([
    {
      says: "Different rules are in force.",
      see: "headgaterulesdiffer",
      since: "1970-01-01T00:00:30.000Z",
      details: ["aaaaaaaaaaaa: a:1", "bbbbbbbbbbbb: b:1"],
    },
  ]);
  expect(view(processes.slice(1))).toEqual([]);
  // While a set is on its way to all.
  expect(joinConditions(processes, 34 * SECOND)).toEqual([]);
  expect(joinConditions(processes, 35 * SECOND)).toHaveLength(1);
});

test("what follows from a condition that follows from another is a detail of the first, with its own details", () => {
  const chain = [
    { ...condition("undecided", 3), causedBy: "degraded", details: ["edge/a"] },
    { ...condition("degraded", 2), causedBy: "store" },
  ];
  const view = (conditions: readonly Condition[]) =>
    viewConditions(joinConditions([{ name: undefined, conditions, rules: { hash: null } }], 0)).map(
      ({ id, details }) => [id, details],
    );
  expect(view([...chain, condition("store", 1)])).toEqual([["store", ["undecided", "edge/a", "degraded"]]]);
  expect(view(chain)).toEqual([["degraded", ["undecided", "edge/a"]]]);
  expect(view(chain.slice(0, 1))).toEqual([["undecided", ["edge/a"]]]);
});

test("of several processes each names its own; a limit is dead only if all say so", () => {
  const dead = (...details: readonly string[]) => ({
    ...condition("dead limits edge", 1, "dead"),
    needsAll: true,
    details,
  });
  const store: Condition = { ...condition("store", 5), severity: "critical" };
  const state = (name: string, ...conditions: readonly Condition[]): ProcessState => ({
    name,
    conditions,
    rules: { hash: "a" },
  });
  const a = state("a:1", dead("edge/x (a.yaml): none came", "edge/y (a.yaml): none came"));
  const b = state("b:1", dead("edge/y (a.yaml): others came"), store);
  expect(view([a, b]).map(({ id, seen_by: seenBy, details }) => [id, seenBy, details])).toEqual([
    ["store", ["b:1"], []],
    ["dead limits edge", ["a:1", "b:1"], ["edge/y (a.yaml): none came"]],
  ]);
  expect(view([a, state("b:1")])).toEqual([]);
});

test("rules are rows in the order of their files, with what each limit allows and has counted", () => {
  const rules = rulesFromYaml(`domain: edge
global_limit: { requests_per_unit: 9, unit: second }
descriptors:
  - key: plan
    value: free
    descriptors:
      - { key: user, shadow_mode: true, rate_limit: { requests_per_unit: 2, unit: minute } }
  - key: tenant
    rate_limits:
      - { name: a, requests_per_unit: 1, unit: second }
      - { name: b, requests_per_unit: 5, unit: day, algorithm: fixed_window }
  - { key: probe, rate_limit: { unlimited: true } }
`);
  const countOf = ({ names: { name } }: Limit) => (name === "b" ? { hits: 7, refused: 2, shadowed: 0 } : NONE);
  expect(rowsOf(rules, countOf)).toEqual({
    domains: [{ domain: "edge", calls: 0, refused: 2, limits: 4, unmet: 4 }],
    domains_left_out: 0,
    limits: 5,
    found: 5,
    rows: [
      {
        id: "edge#global",
        domain: "edge",
        rule: "",
        says: "every call: 9 calls per second, sliding window",
        count: NONE,
        amount: 9,
        window_seconds: 1,
      },
      expect.objectContaining({ id: "edge/plan=free/user", rule: "plan=free/user", mode: "shadow", count: NONE }),
      expect.objectContaining({ id: "edge/tenant#a", rule: "tenant", limit: "a", count: NONE }),
      expect.objectContaining({
        limit: "b",
        says: "5 hits per day, fixed window",
        count: { hits: 7, refused: 2, shadowed: 0 },
      }),
      { id: "edge/probe", domain: "edge", rule: "probe", where: "a.yaml:12:5", says: "unlimited" },
    ],
  });
  expect(rowsOf(undefined, countOf)).toMatchObject({ domains: [], rows: [], found: 0 });
});

test("a limit tells when it last matched, and how many calls its domain has had since", () => {
  const rules = rulesFromYaml(`domain: edge
descriptors:
  - { key: old, rate_limit: { requests_per_unit: 2, unit: minute } }
  - { key: none, rate_limit: { requests_per_unit: 2, unit: minute } }
`);
  const { stats } = rules.domains.get("edge") ?? {};
  if (stats !== undefined) stats.calls = 30;
  const sightOf = ({ names: { path } }: Limit) => ({
    matchedUs: path === "old" ? 20 * SECOND : undefined,
    sinceUs: 20 * SECOND,
    callsThen: 10,
  });
  expect(rowsOf(rules, () => NONE, sightOf).rows).toMatchObject([
    { id: "edge/old", matched_at: "1970-01-01T00:00:20.000Z", calls_since: 20 },
    { id: "edge/none", matched_at: null, calls_since: 20 },
  ]);
});

test("what calls of low priority have counted is added to their limit", () => {
  const rules = rulesFromYaml(`domain: edge
descriptors:
  - key: a
    rate_limit: { requests_per_unit: 10, unit: second, priority: { entry: urgency, values: [urgent], high: 20% } }
`);
  const [row] = rowsOf(rules, () => ({ hits: 3, refused: 1, shadowed: 0 })).rows;
  expect(row?.count).toEqual({ hits: 6, refused: 2, shadowed: 0 });
});

const many = (count: number, domain = "edge") =>
  `domain: ${domain}\ndescriptors:\n${Array.from({ length: count }, (_, i) => `  - { key: k${i}, rate_limit: { requests_per_unit: 1, unit: hour } }\n`).join("")}`;

test("of very many rules those that refuse most are shown, and how many are not", () => {
  const rules = rulesFromYaml(many(300));
  const countOf = ({ names: { path } }: Limit) => ({
    hits: Number(path.slice(1)),
    refused: path === "k7" ? 1 : 0,
    shadowed: 0,
  });
  const { rows, found, domains } = rowsOf(rules, countOf, undefined, { by: "refused" });
  expect(rows.slice(0, 3).map(({ id }) => id)).toEqual(["edge/k7", "edge/k299", "edge/k298"]);
  expect([rows.length, found]).toEqual([200, 300]);
  expect(domains).toEqual([{ domain: "edge", calls: 0, refused: 1, limits: 300, unmet: 300 }]);
  const next = rowsOf(rules, countOf, undefined, { by: "refused", after: 200 });
  expect([next.rows.length, next.rows.at(-1)?.id]).toEqual([100, "edge/k0"]);
});

test("a rule is found wherever it is, and pages of all rules miss none", () => {
  const rules = rulesFromYaml(many(450));
  const found = rowsOf(rules, () => NONE, undefined, { find: "K29" });
  expect(found.rows.map(({ id }) => id)).toEqual(["edge/k29", ...Array.from({ length: 10 }, (_, i) => `edge/k29${i}`)]);
  const pages = [0, 200, 400].map((after) => rowsOf(rules, () => NONE, undefined, { after }).rows);
  expect(pages.map(({ length }) => length)).toEqual([200, 200, 50]);
  expect(new Set(pages.flat().map(({ id }) => id)).size).toBe(450);
});

test("unless asked for all, rules that no call has met are counted and not shown", () => {
  const rules = rulesFromYaml(many(3));
  for (const { stats, names } of rules.domains.get("edge")?.limits ?? []) if (names.path === "k1") stats.totalHits = 5;
  const { rows, domains } = rowsOf(rules, ({ stats }) => stats.count(), undefined, { all: false });
  expect(rows.map(({ id }) => id)).toEqual(["edge/k1"]);
  expect(domains).toMatchObject([{ limits: 3, unmet: 2 }]);
});
