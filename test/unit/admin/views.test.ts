// What the HTTP pages show, from rule sets made by hand.

import { describe, expect, test } from "vitest";
import { configView, limitsText, readExplainQuestion, readinessView } from "../../../src/admin/views.ts";
import { Algorithm, Unit } from "../../../src/core/limit.ts";
import { Kind } from "../../../src/core/take.ts";
import type { DomainRules, Level, Rule, RuleSet } from "../../../src/rules/rule-set.ts";
import { makeLimit } from "../../support/builders.ts";

function makeRule(overrides: Partial<Rule>): Rule {
  return {
    key: "tenant",
    pattern: { kind: "any" },
    patternText: "",
    pathElement: "tenant",
    path: "tenant",
    where: "edge.yaml:1:1",
    hasLimit: true,
    isUnlimited: false,
    unlimitedReplaces: [],
    limits: [],
    kind: Kind.ordinary,
    isQuota: false,
    isPostPaid: false,
    cost: undefined,
    sharesThreshold: false,
    hashesValues: false,
    detailedMetric: false,
    valueToMetric: false,
    metadata: undefined,
    children: undefined,
    ...overrides,
  };
}

function makeLevel(rules: readonly Rule[]): Level {
  return { byKey: new Map(), starKeyPatterns: [], rules };
}

function makeRuleSet(root: Level, overrides: Partial<DomainRules> = {}): RuleSet {
  const domain: DomainRules = {
    domain: "edge",
    keyPrefix: "{edge",
    root,
    globalLimit: undefined,
    costEntries: new Set(),
    hasReplaces: false,
    limits: [],
    files: ["edge.yaml"],
    ...overrides,
  };
  return { version: 2, hash: "abc", domains: new Map([["edge", domain]]), files: ["edge.yaml"], warnings: [] };
}

describe("/rlconfig", () => {
  test("begins each line with the reference's fields and adds ours", () => {
    const inner = makeRule({
      key: "api_key",
      kind: Kind.shadow,
      limits: [makeLimit({ amount: 10, burst: 20, shownAmount: 10, shownUnit: Unit.second, name: "fast" })],
    });
    const root = makeLevel([
      makeRule({ key: "plan", patternText: "free*", hasLimit: false, children: makeLevel([inner]) }),
      makeRule({
        isQuota: true,
        kind: Kind.quota,
        limits: [makeLimit({ algorithm: Algorithm.slidingWindow, amount: 5, windowSeconds: 30, shownAmount: 5 })],
      }),
      makeRule({ key: "office", isUnlimited: true }),
    ]);
    expect(limitsText(makeRuleSet(root)).split("\n")).toEqual([
      "edge.plan_free*.api_key: unit=SECOND requests_per_unit=10, shadow_mode: true, quota_mode: false, algorithm: token_bucket, window: 1s, burst: 20, name: fast",
      "edge.tenant: unit=UNKNOWN requests_per_unit=5, shadow_mode: false, quota_mode: true, algorithm: sliding_window, window: 30s",
      "edge.office: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false, unlimited: true",
      "",
    ]);
  });

  test("shows the global limit", () => {
    const limit = makeLimit({ algorithm: Algorithm.slidingWindow });
    const globalLimit = { limit, countsHits: false, bucketKey: "{edge}|global", keyHash: 1 };
    expect(limitsText(makeRuleSet(makeLevel([]), { globalLimit }))).toContain("edge: unit=SECOND requests_per_unit=10");
  });

  test("is empty before the first rules", () => {
    expect(limitsText(undefined)).toBe("");
  });
});

describe("/config", () => {
  test("shows the rules in force and the problems of the last load", () => {
    const problem = { severity: "error", file: "edge.yaml", line: 3, column: 5, message: "unknown key" } as const;
    const state = {
      directory: "/rules",
      rules: makeRuleSet(makeLevel([])),
      loadedAtUs: Date.UTC(2026, 0, 1) * 1_000,
      lastFailure: { atUs: Date.UTC(2026, 0, 2) * 1_000, message: "1 problem", problems: [problem] },
    };
    expect(configView(state, { PORT: "8080" })).toEqual({
      rules: {
        directory: "/rules",
        version: 2,
        hash: "abc",
        loaded_at: "2026-01-01T00:00:00.000Z",
        files: ["edge.yaml"],
        domains: [{ domain: "edge", files: ["edge.yaml"], limits: 0, global_limit: false, cost_entries: [] }],
        warnings: [],
        last_error: { at: "2026-01-02T00:00:00.000Z", message: "1 problem", problems: [problem] },
      },
      settings: { PORT: "8080" },
    });
  });
});

test("readiness names every reason, and what is amiss although ready", () => {
  const down = new Map([["store", "no connection"]]);
  expect(readinessView(down, down)).toEqual({
    status: "not ready",
    reasons: { store: "no connection" },
    degraded: {},
  });
  expect(readinessView(new Map(), down)).toEqual({
    status: "ready, degraded",
    reasons: {},
    degraded: { store: "no connection" },
  });
});

describe("the question of /explain", () => {
  test("may have descriptors without entries", () => {
    const question = readExplainQuestion(Buffer.from('{"domain":"d","descriptors":[{},{"entries":[]}]}'));
    expect(question).toEqual({ domain: "d", descriptors: [[], []] });
  });

  test("is bounded", () => {
    const body = JSON.stringify({ domain: "d", descriptors: Array.from({ length: 257 }, () => ({})) });
    expect(() => readExplainQuestion(Buffer.from(body))).toThrow(/at most 256/);
  });
});
