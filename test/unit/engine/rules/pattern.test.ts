// How rule files say which values they mean, by what the compiled patterns accept.

import { describe, expect, test } from "vitest";
import { oneByteOf } from "../../../../src/engine/domain/request.ts";
import { compileYaml, rulesFromYaml } from "../../../support/rules.ts";

function patternOf(match: string) {
  const rules = rulesFromYaml(`domain: d\ndescriptors: [{ key: k, match: ${match} }]\n`);
  const pattern = rules.domains.get("d")?.root.rules[0]?.pattern;
  if (pattern === undefined || !("test" in pattern)) throw new Error("no pattern with a test");
  return pattern;
}

describe("regex", () => {
  test.each([
    { regex: "^/v[0-9]+/", value: "/v12/x", fits: true },
    { regex: "^/v[0-9]+/", value: "/a/v12/x", fits: false },
    { regex: "admin", value: "/an/admin/page", fits: true },
    { regex: "^Grü.e$", value: "Grüße", fits: true },
    { regex: "^a*$", value: "aab", fits: false },
  ])("$regex on $value: $fits", ({ regex, value, fits }) => {
    expect(patternOf(`{ regex: "${regex}" }`).test(oneByteOf(value))).toBe(fits);
  });

  test("looks at a bounded part of the value", () => {
    expect(patternOf("{ regex: needle }").test(`${"x".repeat(4_090)}needle`)).toBe(true);
    expect(patternOf("{ regex: needle }").test(`${"x".repeat(5_000)}needle`)).toBe(false);
    expect(patternOf("{ regex: needle }").test(oneByteOf(`${"\u20ac".repeat(4_090)}needle`))).toBe(true);
  });

  test("sees less of a value the larger it is, so that no match takes long", () => {
    const large = patternOf('{ regex: "([ab]{1,100}){2}[ab]{1,40}x" }');
    expect(large.test(`${"a".repeat(150)}x`)).toBe(true);
    expect(large.test(`${" ".repeat(1_000)}${"a".repeat(150)}x`)).toBe(false);
  });

  // Promise(rules): Regexes, and what each reads, are bounded.
  test("may be written as often as one likes, but not in endless variety", () => {
    const rules = (count: number, vary: (i: number) => string) =>
      Array.from({ length: count }, (_, i) => `  - { key: "k${i}", match: { regex: "[ab]{1,200}${vary(i)}" } }\n`);
    const problemsOf = (lines: string[]) => compileYaml(`domain: d\ndescriptors:\n${lines.join("")}`).problems;
    expect(problemsOf(rules(500, () => ""))).toEqual([]);
    const [problem, ...others] = problemsOf(rules(500, String));
    expect(problem?.message).toContain("all rules together exceed 100000 steps");
    expect(others).toEqual([]);
  });
});

describe("cidr", () => {
  test("tells many ranges by the first of them in its path, and finds the last as soon", () => {
    const ranges = Array.from({ length: 2_000 }, (_, i) => `10.${i >> 8}.${i & 255}.0/24`);
    const rules = rulesFromYaml(`domain: d\ndescriptors: [{ key: k, match: { cidr: [${ranges.join(", ")}] } }]\n`);
    const rule = rules.domains.get("d")?.root.rules[0];
    expect(rule?.path).toMatch(/^k=cidr:10\.0\.0\.0\/24,\.\.\.\(2000 ranges, [0-9a-f]{16}\)$/);
    const pattern = rule?.pattern;
    if (pattern?.kind !== "cidr") throw new Error("no cidr");
    expect(pattern.test("10.7.207.9")).toBe(true);
    expect(pattern.test("10.7.208.9")).toBe(false);
  });

  test.each([
    { cidr: "10.0.0.0/8", value: "10.255.0.1", fits: true },
    { cidr: "10.0.0.0/8", value: "11.0.0.1", fits: false },
    { cidr: "10.0.0.0/8", value: "::ffff:10.1.2.3", fits: true },
    { cidr: "10.0.0.0/8", value: "::ffff:a01:203", fits: true },
    { cidr: '"::ffff:10.0.0.0/104"', value: "10.1.2.3", fits: true },
    { cidr: '"2001:db8::/32"', value: "2001:DB8:0:0::1", fits: true },
    { cidr: '"2001:db8::/32"', value: "2001:db9::1", fits: false },
    { cidr: '"::/0"', value: "10.0.0.1", fits: false },
    { cidr: "0.0.0.0/0", value: "203.0.113.9", fits: true },
    { cidr: "127.0.0.1", value: "127.0.0.1", fits: true },
    { cidr: "127.0.0.1", value: "127.1", fits: false },
    { cidr: "0.0.0.0/0", value: "0x7f.1", fits: false },
    { cidr: "0.0.0.0/0", value: "010.0.0.1", fits: false },
    { cidr: "0.0.0.0/0", value: "10.0.0.1:443", fits: false },
    { cidr: "0.0.0.0/0", value: "", fits: false },
    { cidr: "[10.0.0.0/8, 192.168.0.0/16]", value: "192.168.3.4", fits: true },
  ])("$cidr takes $value: $fits", ({ cidr, value, fits }) => {
    expect(patternOf(`{ cidr: ${cidr} }`).test(value)).toBe(fits);
  });

  test.each(["10.0.0.0/33", "10.0.0.1/8", "10.0.0", "10.0.0.0/8/8", "10.0.0.0/x", '"::1/129"', "host", '""'])(
    "%s is refused",
    (cidr) => {
      expect(compileYaml(`domain: d\ndescriptors: [{ key: k, match: { cidr: ${cidr} } }]\n`).ruleSet).toBeUndefined();
    },
  );
});

test("a key with a star lists all patterns of its level, in the order of the file", () => {
  const mixed = rulesFromYaml(
    `domain: d\ndescriptors: [{ key: k, value: "a*" }, { key: "pa*" }, { key: j, value: x }]\n`,
  ).domains.get("d")?.root;
  expect(mixed?.starKeyPatterns.map(({ path }) => path)).toEqual(["k=a*", "pa*"]);
  expect([...(mixed?.byKey.keys() ?? [])]).toEqual(["k", "j"]);
});

test.each([
  ["one_of: [gold, '/api/*']", ["one_of: * is not a wildcard here, got '/api/*'"]],
  ["prefix: '/api/*'", ["prefix: * is not a wildcard here, got '/api/*'"]],
  ["suffix: '*.png'", ["suffix: * is not a wildcard here, got '*.png'"]],
  ["regex: 'a*'", []],
])("a star in %s is warned of where it is no wildcard", (match, messages) => {
  const rule = `{ key: k, match: { ${match} }, rate_limit: { requests_per_unit: 1, unit: day } }`;
  const { ruleSet, problems } = compileYaml([`domain: d\ndescriptors: [${rule}]\n`]);
  expect(ruleSet).toBeDefined();
  expect(problems.map(({ severity, message }) => [severity, message])).toEqual(
    messages.map((message) => ["warning", message]),
  );
});
