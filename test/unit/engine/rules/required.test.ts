// Entries that a domain requires of its calls.

import { describe, expect, test } from "vitest";
import { compileRules } from "../../../../src/engine/rules/compile.ts";
import { explainRequest } from "../../../../src/engine/rules/explain.ts";
import { formatProblem } from "../../../../src/engine/rules/problems.ts";
import type { RuleSet } from "../../../../src/engine/rules/rule-set.ts";
import { addHeaders, type HeaderOptions } from "../../../../src/grpc/rls/headers.ts";
import { addMetadata } from "../../../../src/grpc/rls/metadata.ts";
import { parseFile } from "../../../../src/rule-sources/files/parse-file.ts";
import { type AskedDescriptor, LimiterRig, type RigOptions } from "../../../support/limiter-rig.ts";
import { resourceFile } from "../../../support/resources.ts";
import { compileYaml, rulesFromYaml } from "../../../support/rules.ts";

const LIMITS = `
global_limit: { requests_per_unit: 100, unit: minute }
descriptors:
  - { key: tenant, rate_limit: { requests_per_unit: 10, unit: minute } }
  - { key: ip, rate_limit: { requests_per_unit: 10, unit: minute } }
  - { key: tokens, post_paid: true, rate_limit: { tokens_per_second: 1, burst: 10 } }
`;
const REFUSE = `domain: edge\nrequire: [tenant]\non_missing: refuse${LIMITS}`;
const ALLOW = `domain: edge\nrequire: tenant${LIMITS}`;
const HEADERS: HeaderOptions = { dialects: ["x-ratelimit"], limitHeader: "", remainingHeader: "", resetHeader: "" };

function asked(rules: string, descriptors: readonly AskedDescriptor[], options: RigOptions = {}) {
  const rig = new LimiterRig(rules, options);
  const call = rig.begin(descriptors, 0, "edge");
  rig.limiter.decide(call, Number.POSITIVE_INFINITY);
  addHeaders(call, HEADERS);
  addMetadata(call, "notable");
  const { decision } = call;
  return {
    rig,
    over: decision.overLimit,
    statuses: decision.statuses.slice(0, decision.statusCount).map(({ overLimit }) => overLimit),
    headers: decision.headers.slice(0, decision.headerCount).map(({ key, value }) => `${key}: ${value}`),
    metadata: decision.metadata,
    paid: rig.store.seen.length,
    stats: rig.limiter.rules?.domains.get("edge")?.stats,
    shadowed: rig.observer.events.includes("global shadow"),
  };
}

const ip = { entries: { ip: "203.0.113.7" } };

test("a call without the entry is refused, pays nothing, and says why", () => {
  expect(asked(REFUSE, [ip, { entries: { other: "x" } }])).toMatchObject({
    over: true,
    statuses: [true, true],
    headers: ["X-RateLimit-Reason: required_entry_missing"],
    metadata: { code: "OVER_LIMIT", reason: "required_entry_missing", missing: "tenant", unmatched: [1] },
    paid: 0,
    stats: { incomplete: 1, calls: 1, descriptors: 1 },
  });
});

test.each<[string, readonly AskedDescriptor[]]>([
  ["in a descriptor of its own", [ip, { entries: { tenant: "a" } }]],
  ["with other entries", [{ entries: { path: "/", tenant: "a" } }]],
  ["without a value", [{ entries: { tenant: "" } }]],
])("a call with the entry passes: %s", (_, descriptors) => {
  expect(asked(REFUSE, descriptors)).toMatchObject({ over: false, stats: { incomplete: 0 } });
});

test("by default a call without it passes, is counted, and tells so", () => {
  expect(asked(ALLOW, [ip])).toMatchObject({
    over: false,
    metadata: { code: "OK", missing: "tenant" },
    paid: 1,
    stats: { incomplete: 1 },
  });
});

test("all required entries must be there", () => {
  const rules = REFUSE.replace("[tenant]", "[tenant, user]");
  expect(asked(rules, [{ entries: { tenant: "a" } }]).metadata).toMatchObject({ missing: "user" });
  expect(asked(rules, [{ entries: { tenant: "a" } }, { entries: { user: "b" } }]).over).toBe(false);
});

test.each<[string, AskedDescriptor]>([
  ["a peek", { ...ip, hits: 0 }],
  ["an override", { ...ip, override: { amount: 5, unit: 2 } }],
  ["hits of its own", { ...ip, hits: 3 }],
])("%s is refused, too", (_, descriptor) => {
  expect(asked(REFUSE, [descriptor])).toMatchObject({ over: true, paid: 0 });
});

test.each<[string, AskedDescriptor]>([
  ["a refund", { ...ip, hits: 1, refund: true }],
  ["a report after the fact", { entries: { tokens: "a" }, hits: 3 }],
])("%s is accepted: its call was admitted before", (_, descriptor) => {
  expect(asked(REFUSE, [descriptor])).toMatchObject({ over: false, paid: 1 });
  expect(asked(REFUSE, [descriptor, ip])).toMatchObject({ over: true, paid: 1 });
});

test("SHADOW_MODE refuses nothing, and counts what it would have refused", () => {
  expect(asked(REFUSE, [ip], { shadowMode: true })).toMatchObject({ over: false, paid: 1, shadowed: true });
  expect(asked(ALLOW, [ip], { shadowMode: true })).toMatchObject({ over: false, shadowed: false });
});

test("counters of COMPATIBILITY_MODE are not charged either", () => {
  expect(asked(REFUSE, [ip], { compatible: true })).toMatchObject({ over: true, paid: 0 });
});

test("explain tells what is missing", () => {
  const says = (rules: string) => explainRequest(rulesFromYaml(rules), "edge", [[{ key: "ip", value: "x" }]]).says;
  expect(says(REFUSE)).toMatch(
    /; the domain requires 'tenant', which no descriptor has: the call is refused and pays nothing$/,
  );
  expect(says(ALLOW)).toMatch(/; the domain requires 'tenant', which no descriptor has: the call is counted$/);
  expect(explainRequest(rulesFromYaml(REFUSE), "edge", [[{ key: "tenant", value: "x" }]]).says).not.toContain(
    "requires",
  );
});

describe("with a control plane's rules", () => {
  const resource = resourceFile({
    name: "r",
    domain: "edge",
    descriptors: [{ key: "ip", rate_limit: { unit: "MINUTE", requests_per_unit: 60 } }],
  });
  test.each([
    ["are reports, which stand", "", false],
    ["are refused if the defaults say that they are none", ", post_paid: false", true],
  ])("hits of its descriptors %s", (_, more, isOver) => {
    const rig = new LimiterRig("domain: none");
    const text = `domain: edge\ndefaults: { require: [tenant], on_missing: refuse${more} }\n`;
    const file = parseFile({ name: "beside.yaml", bytes: Buffer.from(text) });
    rig.limiter.useRules(compileRules([resource, file], { statsBook: rig.statsBook }).ruleSet as RuleSet);
    expect(rig.hit({ ip: "a" }, 3).over).toBe(isOver);
    expect(rig.store.seen).toHaveLength(isOver ? 0 : 1);
  });

  test.each([
    ["defaults", "domain: edge\ndefaults: { require: [tenant], on_missing: refuse }\n"],
    ["a file of the domain", "domain: edge\nrequire: [tenant]\non_missing: refuse\n"],
  ])("%s require entries", (_, text) => {
    const rig = new LimiterRig("domain: none");
    const file = parseFile({ name: "beside.yaml", bytes: Buffer.from(text) });
    const { ruleSet, problems } = compileRules([resource, file], { statsBook: rig.statsBook });
    expect(problems.map(formatProblem)).toEqual([]);
    rig.limiter.useRules(ruleSet as RuleSet);
    expect(rig.hit({ ip: "a" }).over).toBe(true);
    expect(rig.ask([{ entries: { ip: "a" } }, { entries: { tenant: "b" } }]).over).toBe(false);
  });
});

test.each([
  ["require: []", "a.yaml:2:10: error: require: the list is empty, so nothing can match"],
  ["require: [a, { b: c }]", "a.yaml:2:14: error: require: expected text, got a mapping"],
  ['require: [""]', "a.yaml:2:10: error: require: expected keys of entries, got an empty text"],
  ["require: [a, b, c, d, e, f, g, h, i]", "a.yaml:2:10: error: require: expected at most 8 entries, got 9"],
  ["on_missing: refuse", "a.yaml:2:1: error: 'on_missing' has no effect without 'require'"],
  ["require: [a]\non_missing: deny", "a.yaml:3:13: error: on_missing: expected one of allow, refuse, got 'deny'"],
  [
    "require: [a]\ndefaults: { require: [b] }",
    "a.yaml:3:11: error: the domain already has a 'require', in its defaults or in another file",
  ],
  ["defaults: { on_missing: allow }", "a.yaml:2:13: error: 'on_missing' has no effect without 'require'"],
])("is refused with its place: %s", (lines, problem) => {
  const { problems } = compileYaml(`domain: edge\n${lines}\n`);
  expect(problems.map(formatProblem)).toEqual([problem]);
});
