// What /rlconfig and /readyz show.

import { describe, expect, test } from "vitest";
import type { RuleSet } from "../../../../src/engine/rules/rule-set.ts";
import { limitLines, readinessView } from "../../../../src/operate/http/views.ts";
import { rulesFromYaml } from "../../../support/rules.ts";

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
      "edge.plan_free*.api_key: unit=SECOND requests_per_unit=10, shadow_mode: true, quota_mode: false, name: fast, says: 10 tokens per second, burst 20, token bucket",
      "edge.tenant: unit=UNKNOWN requests_per_unit=5, shadow_mode: false, quota_mode: true, says: 5 hits per 30 seconds, sliding window",
      "edge.llm: unit=WEEK requests_per_unit=5, shadow_mode: false, quota_mode: false, post_paid: true, says: 5 hits per week, sliding window",
      "edge.office: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false, unlimited: true",
      "edge: unit=DAY requests_per_unit=9, shadow_mode: false, quota_mode: false, global_limit: true, says: 9 hits per day, sliding window",
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
