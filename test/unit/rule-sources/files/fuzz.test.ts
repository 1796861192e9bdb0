// Rule files made by chance and by malice: compiling never throws, never hangs, and what is refused has a place.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ENTRY_BYTES_MAX } from "../../../../src/engine/domain/request.ts";
import { NODES_FAULT, REPLACES_MAX, RULES_MAX, SECTIONS } from "../../../../src/engine/rules/schema.ts";
import { loadError } from "../../../../src/rule-sources/files/load.ts";
import { parseHere } from "../../../../src/rule-sources/files/parse-in-thread.ts";
import { compileYaml } from "../../../support/rules.ts";
import { runs } from "../../../support/runs.ts";

const GOOD = `domain: shop
global_limit: { requests_per_unit: 100, unit: second, count: hits }
descriptors:
  - &base
    key: plan
    value: "gold*"
    share_threshold: on
    rate_limits:
      - { name: fast, tokens_per_second: 0.5, burst: 3, debt_max: 9 }
      - { name: slow, requests_per_unit: 0x10, window: 7d, algorithm: fixed_window, replaces: [{ name: fast }] }
    post_paid: true
    metadata: { a: [1, { b: ~ }], 1.5: |
      text
      }
    descriptors:
      - { key: ip, match: { cidr: [10.0.0.0/8, "::1"] }, rate_limit: { unlimited: true } }
  - { <<: *base, key: path, value: ~, match: { regex: "^/v[0-9]+" } }
`;

function compileSafely(bytes: string | Buffer) {
  const result = compileYaml({ "a.yaml": bytes as string });
  const errors = result.problems.filter(({ severity }) => severity === "error");
  expect(result.ruleSet === undefined).toBe(errors.length > 0);
  for (const { line, column, message } of result.problems) {
    expect(line >= 1 && column >= 1 && message.length > 0).toBe(true);
  }
  return result;
}

const scalar = fc.oneof(
  fc.constantFrom(
    "a",
    "*",
    "10",
    "0.5",
    "0x10",
    "~",
    "true",
    "'q'",
    '"d"',
    "30s",
    "day",
    "[",
    "{",
    "*base",
    "&b x",
    "!!int 5",
    "|",
    "1e999",
  ),
  fc.string({ maxLength: 12 }),
);
const keys = [...new Set(Object.values(SECTIONS).flatMap((section) => section.keys))];
const tree = fc.letrec<{ node: string; map: string; list: string }>((tie) => ({
  node: fc.oneof({ maxDepth: 4, withCrossShrink: true }, scalar, tie("map"), tie("list")),
  map: fc
    .array(fc.tuple(fc.constantFrom(...keys, "<<", "bad", "5"), tie("node")), { maxLength: 6 })
    .map((entries) => `{${entries.map(([key, value]) => `${key}: ${value}`).join(", ")}}`),
  list: fc.array(tie("node"), { maxLength: 4 }).map((items) => `[${items.join(", ")}]`),
}));

describe("chance", () => {
  test("any text, and any bytes", () => {
    const bytes = fc.uint8Array({ maxLength: 100 }).map((each) => Buffer.from(each));
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: "binary", maxLength: 200 }), bytes), (text) => void compileSafely(text)),
      { numRuns: runs(300) },
    );
  });

  test("keys and values of rule files in any arrangement", () => {
    fc.assert(
      fc.property(
        tree.map,
        (text) => void compileSafely(`domain: d\ndescriptors:\n  - ${text}\n  - {key: a, rate_limit: ${text}}\n`),
      ),
      { numRuns: runs(300) },
    );
  });

  test("a good file with pieces cut out, doubled or replaced", () => {
    const cut = fc.tuple(
      fc.nat(GOOD.length),
      fc.nat(12),
      fc.constantFrom("", "\n", " ", "{", "]", ":", "- ", "\t", "*", "&x ", "é", '"'),
    );
    compileSafely(GOOD);
    fc.assert(
      fc.property(fc.array(cut, { minLength: 1, maxLength: 4 }), (cuts) => {
        compileSafely(cuts.reduce((text, [at, length, by]) => text.slice(0, at) + by + text.slice(at + length), GOOD));
      }),
      { numRuns: runs(500) },
    );
  });
});

describe("malice", () => {
  const list = (item: string, count: number) => Array.from({ length: count }, () => item).join(",");

  test("aliases of aliases are bounded", () => {
    let text = "domain: d\nmetadata:\n  a0: &a0 [x]\n";
    for (let i = 1; i <= 12; i++) text += `  a${i}: &a${i} [${list(`*a${i - 1}`, 10)}]\n`;
    expect(compileSafely(text).problems[0]?.message).toBe(NODES_FAULT);
  });

  test("merges of merges are bounded", () => {
    let text = "domain: d\nmetadata:\n  a0: &a0 { k: 1, l: 2, m: 3 }\n";
    for (let i = 1; i <= 12; i++) text += `  a${i}: &a${i} { <<: [${list(`*a${i - 1}`, 10)}] }\n`;
    expect(compileSafely(text).problems[0]?.message).toBe(NODES_FAULT);
  });

  test("aliases of all files are bounded together", () => {
    let text = "domain: d\nmetadata:\n  a0: &a0 [x]\n";
    for (let i = 1; i <= 5; i++) text += `  a${i}: &a${i} [${list(`*a${i - 1}`, 10)}]\n`;
    // Some 1.3 million nodes.
    text += `  all: [${list("*a5", 5)}]\n`;
    const files = ["a", "b", "c"].map((name) => ({ name, bytes: Buffer.from(text) }));
    expect(parseHere(files.slice(0, 1))[0]?.problems).toEqual([]);
    expect(parseHere(files)).toEqual([
      { name: "b", root: undefined, problems: [expect.objectContaining({ file: "b", message: NODES_FAULT })] },
    ]);
  });

  test("a limit replaces a bounded number of others", () => {
    const rule = (names: number) =>
      `domain: d\ndescriptors:\n  - { key: a, rate_limit: { rps: 1, replaces: [${list("{ name: b }", names)}] } }\n`;
    expect(compileSafely(rule(REPLACES_MAX)).ruleSet).toBeDefined();
    expect(compileSafely(rule(REPLACES_MAX + 1)).problems[0]?.message).toContain(`at most ${REPLACES_MAX} names`);
  });

  test.each(["key", "value"])("a %s longer than any call's is refused", (name) => {
    const rule = (chars: number) => `domain: d\ndescriptors:\n  - { key: a, ${name}: ${"x".repeat(chars)} }\n`;
    expect(compileSafely(rule(ENTRY_BYTES_MAX)).ruleSet).toBeDefined();
    expect(compileSafely(rule(ENTRY_BYTES_MAX + 1)).problems.map(({ message }) => message)).toContain(
      `${name}: expected at most 65536 bytes, as calls may have, got 65537`,
    );
  });

  test("values of one_of below values of one_of are bounded", () => {
    const values = Array.from({ length: 800 }, (_, i) => `v${i}`).join(",");
    const text = `domain: d
descriptors:
  - { key: a, match: { one_of: [${values}] }, descriptors: [{ key: b, match: { one_of: [${values}] } }] }
`;
    expect(compileSafely(text).problems[0]?.message).toContain(`more than ${RULES_MAX} rules`);
  });

  test("a key named like a property of every object is only a key", () => {
    const text =
      "domain: __proto__\ndescriptors:\n  - { key: constructor, value: toString, rate_limit: { rps: 1 }, metadata: { __proto__: { x: 1 } } }\n";
    const rule = compileSafely(text).ruleSet?.domains.get("__proto__")?.root.rules[0];
    expect(Object.keys(rule?.metadata ?? {})).toEqual(["__proto__"]);
    expect(({} as { x?: number }).x).toBeUndefined();
  });
});

test("an error of many problems stays readable", () => {
  const { problems } = compileSafely(`domain: d\n${"bad: 1\n".repeat(2_000)}`);
  const error = loadError("rules", { ruleSet: undefined, problems, hash: "", files: [] });
  expect(error.problems).toHaveLength(500);
  expect(error.message).toBe("the rules in rules can't be used: 500 errors");
});
