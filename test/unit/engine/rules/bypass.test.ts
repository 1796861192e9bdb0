// Which rules `check` says callers can get around: it depends on who sets the values of a key.

import { describe, expect, test } from "vitest";
import { compileYaml } from "../../../support/rules.ts";

const LIMIT = "rate_limit: { requests_per_unit: 5, unit: minute }";
const BELOW = `descriptors: [{ key: user, ${LIMIT} }]`;

function warningsOf(...rules: readonly string[]): readonly string[] {
  const { ruleSet, problems } = compileYaml(
    `domain: d\ndescriptors:\n${rules.map((rule) => `  - { ${rule} }\n`).join("")}`,
  );
  expect(ruleSet).toBeDefined();
  return problems.map(({ message }) => message);
}

describe("values that operators fix", () => {
  // Promise(rules): `check` warns of values that callers choose, not of those that routes fix.
  test.each([
    ["header_match", "os=linux"],
    ["generic_key", "login"],
    ["query_match", "debug"],
    ["remote_address_match", "office"],
    ["destination_cluster", "users"],
    ["source_cluster", "front"],
    ["masked_remote_address", "10.0.0.0/8"],
    ["httproute/default/shop/rule/0", "httproute/default/shop/rule/0"],
  ])("%s has no way around, with rules below it or without", (key, value) => {
    expect(warningsOf(`key: ${key}, value: ${value}, ${BELOW}`)).toEqual([]);
    expect(warningsOf(`key: ${key}, value: ${value}, ${LIMIT}`)).toEqual([]);
  });

  test("a gateway's rule has no warning for words that it repeats at each entry, or for the name of its resource", () => {
    const { problems } = compileYaml(`name: listener
domain: listener
descriptors:
  - key: route
    value: route
    shadow_mode: true
    descriptors:
      - { key: rule-0-match-0, value: rule-0-match-0, shadow_mode: true, ${LIMIT} }
`);
    expect(problems).toEqual([]);
  });
});

describe("values that callers choose", () => {
  test.each([
    { key: "path", value: "/login", dodge: "/login?x=1" },
    { key: ":path", value: "/login?a=b", dodge: "/login?a=b&x=1" },
    { key: "request-path", value: "/login", dodge: "/login?x=1" },
    { key: "Host", value: "api.example.com", dodge: "api.example.com:443" },
    { key: ":authority", value: "api.example.com", dodge: "api.example.com:443" },
    { key: "user_agent", value: "curl", dodge: "curlx" },
  ])("$key=$value is got around by $dodge", ({ key, value, dodge }) => {
    const says = `callers choose the value of '${key}': '${dodge}' is not '${value}', matches no rule and is not limited`;
    expect(warningsOf(`key: "${key}", value: "${value}", ${LIMIT}`)).toEqual([says]);
    expect(warningsOf(`key: "${key}", value: "${value}", ${BELOW}`)).toEqual([says]);
    expect(warningsOf(`key: "${key}", match: { one_of: ["${value}"] }, ${LIMIT}`)).toEqual([says]);
  });

  test.each([
    { what: "another rule takes all values", rules: [`key: path, value: /login, ${LIMIT}`, `key: path, ${LIMIT}`] },
    {
      what: "a prefix takes it",
      rules: [`key: path, value: /login, ${LIMIT}`, `key: path, match: { prefix: / }, ${LIMIT}`],
    },
    { what: "the rule itself is a prefix", rules: [`key: path, match: { prefix: /login }, ${LIMIT}`] },
    { what: "the value is exempt", rules: [`key: path, value: /health, rate_limit: { unlimited: true }`] },
    { what: "a method can't be written otherwise", rules: [`key: method, value: POST, ${LIMIT}`] },
  ])("there is no way around if $what", ({ rules }) => {
    expect(warningsOf(...rules)).toEqual([]);
  });

  test("a class of callers without a rule for the rest has one", () => {
    expect(warningsOf(`key: plan, value: free, ${BELOW}`)).toEqual([
      "a descriptor with any other 'plan' matches no rule and is not limited",
    ]);
    expect(warningsOf(`key: plan, value: free, ${LIMIT}`)).toEqual([]);
  });
});
