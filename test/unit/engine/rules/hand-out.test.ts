// `hand_out`: what may be handed out to Envoys, and what is refused with the reason.

import { describe, expect, test } from "vitest";
import { keySetOf } from "../../../../src/engine/rules/hand-out.ts";
import { formatProblem } from "../../../../src/engine/rules/problems.ts";
import { compileYaml, rulesFromYaml } from "../../../support/rules.ts";

const BUCKET = "rate_limit: { tokens_per_second: 100, burst: 100 }";
const fileOf = (rule: string, rest = "") => `domain: edge\n${rest}\ndescriptors:\n  - { key: tenant, ${rule} }\n`;

function problemsOf(text: string, compatible = false): string {
  return compileYaml(text, { compatible }).problems.map(formatProblem).join("\n");
}

describe("hand_out", () => {
  test("has defaults, and the order of the keys by their set", () => {
    const rules = rulesFromYaml(`domain: edge
descriptors:
  - key: pool
    descriptors:
      - { key: account, ${BUCKET}, hand_out: {} }
      - { key: user, ${BUCKET}, hand_out: { idle: 5m, floor: 0% } }
      - { key: asked, ${BUCKET} }
`).domains.get("edge");
    expect([...(rules?.handedOut ?? [])]).toEqual([
      [keySetOf(["account", "pool"]), ["pool", "account"]],
      [keySetOf(["user", "pool"]), ["pool", "user"]],
    ]);
    const level = rules?.root.rules[0]?.children?.rules.map(({ handOut }) => handOut);
    expect(level).toEqual([{ idleSeconds: 60, floorPercent: 1 }, { idleSeconds: 300, floorPercent: 0 }, undefined]);
  });

  test.each<[what: string, rule: string, says: string, rest?: string]>([
    [
      "a window",
      "rate_limit: { requests_per_unit: 10, unit: second }, hand_out: {}",
      "needs a token_bucket, but this limit is a sliding_window",
    ],
    [
      "a calendar window",
      "rate_limit: { requests_per_unit: 10, window: { calendar: day, time_zone: UTC } }, hand_out: {}",
      "but this limit is a calendar_window",
    ],
    [
      "several limits",
      `rate_limits: [{ name: a, tokens_per_second: 9, burst: 90 }, { name: b, tokens_per_second: 9, burst: 90 }], hand_out: {}`,
      "needs a rule with one limit",
    ],
    [
      "a cost",
      `${BUCKET}, cost: { entry: weight }, hand_out: {}`,
      "'cost' can't be combined with 'hand_out': Envoy counts requests",
    ],
    ["a hold", `${BUCKET}, hold: { id: request, ttl: 60s }, hand_out: {}`, "'hold' can't be combined with 'hand_out'"],
    [
      "concurrent",
      `${BUCKET}, hold: { id: request, ttl: 60s }, concurrent: 3, hand_out: {}`,
      "'concurrent' can't be combined with 'hand_out'",
    ],
    ["post_paid", `${BUCKET}, post_paid: true, hand_out: {}`, "'post_paid' can't be combined with 'hand_out'"],
    ["charge_given_hits", `${BUCKET}, charge_given_hits: true, hand_out: {}`, "'charge_given_hits' can't be combined"],
    ["shadow mode", `${BUCKET}, shadow_mode: true, hand_out: {}`, "'shadow_mode' can't be combined"],
    ["quota mode", `${BUCKET}, quota_mode: true, hand_out: {}`, "'quota_mode' can't be combined"],
    [
      "a tier",
      "tier: { entry: plan, default: all }, hand_out: {}",
      "'tier' can't be combined",
      "limits: { all: { tokens_per_second: 100, burst: 100 } }",
    ],
    [
      "a priority",
      "rate_limit: { tokens_per_second: 100, burst: 100, priority: { entry: level, values: high, high: 20% } }, hand_out: {}",
      "'priority' can't be combined",
    ],
    [
      "a lease",
      "rate_limit: { tokens_per_second: 100, burst: 100, sync: lease }, hand_out: {}",
      "sync: lease can't be used with 'hand_out'",
    ],
    ["no limit", "hand_out: {}", "'hand_out' has no effect on a rule without a limit"],
    [
      "an unlimited rule",
      "rate_limit: { unlimited: true }, hand_out: {}",
      "'hand_out' has no effect on an unlimited rule",
    ],
    [
      "a burst without a token for one Envoy",
      "rate_limit: { tokens_per_second: 5, burst: 7 }, hand_out: {}",
      "needs a burst of at least 8, got 7",
    ],
    [
      "a global limit",
      `${BUCKET}, hand_out: {}`,
      "can't be used in a domain with a global_limit (a.yaml:2:15)",
      "global_limit: { tokens_per_second: 1000 }",
    ],
    [
      "keys that occur twice",
      `descriptors: [{ key: tenant, ${BUCKET}, hand_out: {} }]`,
      "needs different keys on the path",
    ],
    [
      "the same keys in another order",
      `descriptors: [{ key: user, ${BUCKET}, hand_out: {} }] }\n  - { key: user, descriptors: [{ key: tenant, ${BUCKET}, hand_out: {} }]`,
      "has the same keys in another order (tenant, user)",
    ],
    ["a short idle", `${BUCKET}, hand_out: { idle: 5s }`, "hand_out: idle: expected at least 15s"],
    [
      "a large floor",
      `${BUCKET}, hand_out: { floor: 20% }`,
      "hand_out: floor: expected a whole percentage of the limit from 0% to 10%",
    ],
    ["another key", `${BUCKET}, hand_out: { idel: 60s }`, "unknown key 'idel' in 'hand_out'"],
  ])("is refused with %s", (_, rule, says, rest) => {
    const { ruleSet } = compileYaml(fileOf(rule, rest));
    expect(ruleSet).toBeUndefined();
    expect(problemsOf(fileOf(rule, rest))).toContain(says);
  });

  test("is refused under COMPATIBILITY_MODE", () => {
    expect(problemsOf(fileOf(`${BUCKET}, hand_out: {}`), true)).toContain("can't be used with COMPATIBILITY_MODE");
  });

  test("says for how many Envoys a small burst suffices", () => {
    const { problems } = compileYaml(fileOf("rate_limit: { tokens_per_second: 10, burst: 20 }, hand_out: {}"));
    expect(problems.map(({ message }) => message)).toEqual([
      "hand_out: a burst of 20 suffices for 2 Envoys; further ones are denied",
    ]);
  });
});
