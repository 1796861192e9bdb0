// Rules found by the text key_value, the names of counters, and which limits are counters at all.

import { expect, test } from "vitest";
import { Descriptor, oneByteOf } from "../../../../src/engine/domain/request.ts";
import { findRule } from "../../../../src/engine/rules/match.ts";
import type { DomainRules, Rule } from "../../../../src/engine/rules/rule-set.ts";
import { rulesFromYaml } from "../../../support/rules.ts";

const LIMIT = "rate_limit: { unit: day, requests_per_unit: 5 }";

function compile(...rules: string[]): DomainRules {
  const text = `domain: d\ndescriptors:\n${rules.map((rule) => `  - ${rule}\n`).join("")}`;
  const domain = rulesFromYaml(text, { compatible: true, cacheKeyPrefix: "p:" }).domains.get("d");
  if (domain === undefined) throw new Error("no domain d");
  return domain;
}

function find(domain: DomainRules, ...entries: [string, string][]): { path: string | undefined; key: string } {
  const descriptor = new Descriptor();
  for (const [key, value] of entries) descriptor.addEntry(oneByteOf(key), oneByteOf(value));
  const matched: Rule[] = [];
  const rule = findRule(domain, descriptor, matched);
  return { path: rule?.path, key: domain.counters?.keyOf(domain, descriptor, matched) ?? "" };
}

test.each([
  { name: "a rule answers for the same text cut elsewhere", entry: ["a_b", "c"], path: "a=b_c" },
  { name: "a bare key answers for a key and a value of that text", entry: ["x", "y"], path: "x_y" },
  { name: "and goes before the rule for any value", entry: ["x", "z"], path: "x" },
  { name: "a rule with a value is the default of the key of that text", entry: ["a_b_c", "any"], path: "a=b_c" },
  { name: "a star reaches over the boundary", entry: ["s_t", "u"], path: "s=*" },
  { name: "a star needs the boundary itself", entry: ["st", "u"], path: undefined },
  { name: "text goes before stars", entry: ["s", "exact"], path: "s=exact" },
  { name: "a match that only Headgate knows still looks at key and value", entry: ["r", "abc"], path: "r=prefix:ab" },
] as const)("rules and entries are compared as one text, key_value: $name", ({ entry: [key, value], path }) => {
  const rules = compile(
    `{ key: a, value: b_c, ${LIMIT} }`,
    `{ key: x_y, ${LIMIT} }`,
    `{ key: x, ${LIMIT} }`,
    `{ key: s, value: "*", ${LIMIT} }`,
    `{ key: s, value: exact, ${LIMIT} }`,
    `{ key: r, match: { prefix: ab }, ${LIMIT} }`,
  );
  expect(find(rules, [key, value]).path).toBe(path);
});

test.each([
  { name: "requests per unit", rule: LIMIT, isCounter: true },
  {
    name: "an algorithm",
    rule: "rate_limit: { unit: day, requests_per_unit: 5, algorithm: fixed_window }",
    isCounter: false,
  },
  { name: "a window", rule: "rate_limit: { window: 1d, requests_per_unit: 5 }", isCounter: false },
  { name: "a token bucket", rule: "rate_limit: { tokens_per_second: 1 }", isCounter: false },
  { name: "a list of limits", rule: "rate_limits: [{ unit: day, requests_per_unit: 5 }]", isCounter: false },
  { name: "post_paid", rule: `post_paid: true, ${LIMIT}`, isCounter: false },
  { name: "a cost", rule: `cost: { entry: w }, ${LIMIT}`, isCounter: false },
])("$name makes a counter: $isCounter", ({ rule, isCounter }) => {
  expect(compile(`{ key: k, ${rule} }`).limits.map((limit) => limit.isCounter)).toEqual([isCounter]);
});
