// What the HTTP pages show, from rule sets of YAML text.

import { describe, expect, test } from "vitest";
import type { RuleSet } from "../../../src/engine/rules/rule-set.ts";
import { configView, limitLines, readinessView } from "../../../src/operate/http/views.ts";
import { rulesFromYaml } from "../../support/rules.ts";

const limitsText = (rules: RuleSet | undefined) => [...limitLines(rules)].join("");

describe("/rlconfig", () => {
  test("begins each line with the reference's fields and adds ours", () => {
    const rules = rulesFromYaml(`domain: edge
global_limit: { requests_per_unit: 9, unit: day }
descriptors:
  - key: plan
    value: free*
    descriptors:
      - key: api_key
        shadow_mode: true
        rate_limit: { tokens_per_second: 10, burst: 20, name: fast }
  - key: tenant
    quota_mode: true
    rate_limit: { requests_per_unit: 5, window: 30s }
  - key: llm
    post_paid: true
    rate_limit: { requests_per_unit: 5, unit: week }
  - key: office
    rate_limit: { unlimited: true }
`);
    expect(limitsText(rules).split("\n")).toEqual([
      "edge.plan_free*.api_key: unit=SECOND requests_per_unit=10, shadow_mode: true, quota_mode: false, algorithm: token_bucket, window: 1s, burst: 20, name: fast",
      "edge.tenant: unit=UNKNOWN requests_per_unit=5, shadow_mode: false, quota_mode: true, algorithm: sliding_window, window: 30s",
      "edge.llm: unit=WEEK requests_per_unit=5, shadow_mode: false, quota_mode: false, algorithm: sliding_window, window: 604800s, post_paid: true",
      "edge.office: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false, unlimited: true",
      "edge: unit=DAY requests_per_unit=9, shadow_mode: false, quota_mode: false, global_limit: true, algorithm: sliding_window, window: 86400s",
      "",
    ]);
  });

  test("shows letters beyond ASCII as they were written", () => {
    const rules = rulesFromYaml(
      "domain: küche\ndescriptors: [{ key: größe, rate_limit: { requests_per_unit: 1, unit: day } }]",
    );
    expect(limitsText(rules)).toMatch(/^küche\.größe: /);
  });
});

describe("/config", () => {
  test("shows the rules in force and the problems of the last load, also before the first one", () => {
    const problem = { severity: "error", file: "edge.yaml", line: 3, column: 5, message: "unknown key" } as const;
    const rules = rulesFromYaml({ "edge.yaml": "domain: edge" }, { version: 2, hash: "abc" });
    const loadedAtUs = Date.UTC(2026, 0, 1) * 1_000;
    const lastError = {
      part: "files",
      atUs: Date.UTC(2026, 0, 2) * 1_000,
      message: "1 problem",
      problems: [problem],
    } as const;
    const counts = { loads: 1, failures: 1 };
    const state = {
      directory: "/rules",
      source: { current: rules, status: () => ({ ...counts, loadedAtUs, lastError }) },
      unmatched: [
        { domain: "edge", hasRules: true, descriptors: 3, exampleKeys: ["plan", "weight"] },
        { domain: "egde", hasRules: false, descriptors: 2, exampleKeys: [] },
      ],
    };
    const none = () => ({ ...counts, loadedAtUs: undefined, lastError: undefined });
    const before = { ...state, source: { current: undefined, status: none } };
    expect(configView(before, {})).toMatchObject({ rules: { version: null, domains: [], last_error: null } });
    expect(configView(state, { PORT: "8080" })).toMatchObject({
      rules: {
        version: 2,
        loaded_at: "2026-01-01T00:00:00.000Z",
        domains: [{ domain: "edge", files: ["edge.yaml"], limits: 0 }],
        unmatched_descriptors: [
          { domain: "edge", has_rules: true, descriptors: 3, example_keys: ["plan", "weight"] },
          { domain: "egde", has_rules: false, descriptors: 2 },
        ],
        last_error: { at: "2026-01-02T00:00:00.000Z", message: "1 problem", problems: [problem] },
      },
      settings: { PORT: "8080" },
    });
  });
});

test("readiness names every reason, and what is amiss although ready", () => {
  const down = new Map([["store", "no connection"]]);
  expect(readinessView(down, down, undefined)).toEqual({
    status: "not ready",
    reasons: { store: "no connection" },
    degraded: {},
  });
  expect(readinessView(new Map(), down, undefined)).toEqual({
    status: "ready, degraded",
    reasons: {},
    degraded: { store: "no connection" },
  });
  const refused = { atUs: 0, part: "files" as const, message: "2 errors in 1 file", problems: [] };
  expect(readinessView(new Map(), new Map(), refused)).toEqual({
    status: "ready, degraded",
    reasons: {},
    degraded: { rules: "new rules rejected (see /config): 2 errors in 1 file" },
  });
  expect(readinessView(new Map([["rules", "none"]]), new Map(), refused)).toMatchObject({ degraded: {} });
});
