// What concerns whole sets: domains over files, names and ids, defaults, stats, all problems at once.

import { describe, expect, test } from "vitest";
import { OnStoreFailure } from "../../../../src/engine/domain/limit.ts";
import { LimitStats } from "../../../../src/engine/domain/stats.ts";
import { PROBLEMS_MAX, ProblemLog } from "../../../../src/engine/rules/problems.ts";
import { compileYaml, PlainStatsBook, rulesFromYaml } from "../../../support/rules.ts";

const LIMIT = "rate_limit: { requests_per_unit: 5, unit: minute }";

function errorsOf(texts: Parameters<typeof compileYaml>[0], options = {}): string[] {
  const { problems } = compileYaml(texts, options);
  return problems
    .filter(({ severity }) => severity === "error")
    .map(({ file, line, column }) => `${file}:${line}:${column}`);
}

test("merging domains refuses the same rule and a second global limit", () => {
  const two = `domain: d\nglobal_limit: { rps: 5 }\ndescriptors:\n  - { key: a, value: "xy*", ${LIMIT} }\n  - { key: b }\n`;
  expect(errorsOf([two, two], { mergeDomains: true })).toEqual(["b.yaml:2:15", "b.yaml:4:22", "b.yaml:5:12"]);
});

describe("limits of a set", () => {
  test("defaults come from the options, then the rule, then the limit", () => {
    const domain = rulesFromYaml(
      `domain: d
descriptors:
  - { key: a, rate_limit: { rps: 1 } }
  - { key: b, on_store_failure: deny, rate_limit: { rps: 1, retry_after_jitter: 0.1 } }
  - { key: c, on_store_failure: deny, rate_limits: [{ rps: 1, on_store_failure: local }] }
`,
      { defaultOnStoreFailure: OnStoreFailure.error, defaultRetryAfterJitter: 0.3, cacheKeyPrefix: "p:" },
    ).domains.get("d");
    expect(domain?.keyPrefix).toBe("p:{d");
    expect(domain?.limits.map((limit) => [limit.policy.onStoreFailure, limit.policy.retryAfterJitter])).toEqual([
      [OnStoreFailure.error, 0.3],
      [OnStoreFailure.deny, 0.1],
      [OnStoreFailure.local, 0.3],
    ]);
  });

  test("ids are unique even where paths read the same", () => {
    const domain = rulesFromYaml(
      `domain: d
descriptors:
  - { key: a, value: b/c, ${LIMIT} }
  - { key: a, value: b, descriptors: [{ key: c, ${LIMIT} }] }
`,
    ).domains.get("d");
    expect(domain?.limits.map(({ names: { id } }) => id)).toEqual(["d/a=b/c", "d/a=b/c~2"]);
  });

  test("stats are asked for by the reference's stat path", () => {
    const statsBook = new PlainStatsBook();
    const rules = rulesFromYaml(
      `domain: d
global_limit: { rps: 9 }
descriptors:
  - key: a
    value: x
    descriptors: [{ key: b, value: "y*", rate_limits: [{ rps: 1, name: n }, { rps: 2 }] }]
`,
      { statsBook },
    );
    expect([...statsBook.stats.keys()]).toEqual([
      '["d","a_x","b_y*","n"]',
      '["d","a_x","b_y*","token_bucket/1"]',
      '["d",""]',
    ]);
    expect(rules.domains.get("d")?.limits[0]?.stats).toBe(statsBook.stats.get('["d","a_x","b_y*","n"]'));
  });

  test("a refused set asks for no stats of rules that were read before the mistake", () => {
    const asked: string[] = [];
    const statsBook = {
      statsOf(domain: string) {
        asked.push(domain);
        return new LimitStats();
      },
    };
    compileYaml([`domain: d\ndescriptors: [{ key: a, ${LIMIT} }]\n`, "domain: [x]\n"], { statsBook });
    expect(asked).toEqual([]);
  });

  test("names that differ as written differ as shown, and replaces means them as written", () => {
    const { ruleSet, problems } = compileYaml(`domain: d
descriptors:
  - { key: a, rate_limit: { rps: 1, name: a b } }
  - { key: b, rate_limit: { rps: 1, name: a_b } }
  - { key: c, rate_limit: { rps: 1, name: c, replaces: [{ name: a b }, { name: a%20b }] } }
`);
    const domain = ruleSet?.domains.get("d");
    expect(domain?.limits.map(({ names: { name } }) => name)).toEqual(["a%20b", "a_b", "c"]);
    expect(domain?.limits[2]?.policy.replaces).toEqual(["a%20b"]);
    expect(domain?.hasReplaces).toBe(true);
    expect(problems.filter(({ message }) => message.includes("nothing is replaced"))).toHaveLength(1);
  });

  const COUNT = "rate_limit: { requests_per_unit: 9, unit: hour, algorithm: fixed_window }";
  test.each([
    `{ key: a, hold: { id: r, ttl: 60s, estimate: mark }, ${COUNT} }`,
    `{ key: a, hold: { id: mark, ttl: 60s }, ${COUNT} }`,
    `{ key: a, cost: { entry: mark }, ${COUNT} }`,
    `{ key: a, rate_limit: { requests_per_unit: 9, unit: hour, priority: { entry: mark, high: 10% } } }`,
  ])("an entry that marks settlements in another rule can't carry anything else: %s", (rule) => {
    const marking = (settle: string) => `{ key: b, hold: { id: r2, ttl: 60s, settle: ${settle} }, ${COUNT} }`;
    const errors = (settle: string) =>
      compileYaml(`domain: d\ndescriptors:\n  - ${rule}\n  - ${marking(settle)}\n`)
        .problems.filter(({ severity }) => severity === "error")
        .map(({ line, message }) => [line, message]);
    expect(errors("mark")).toEqual([[3, expect.stringMatching(/^'mark' .* calls with it would never be refused$/)]]);
    expect(errors("{ entry: mark, value: end }")).toEqual([]);
    expect(errors("other")).toEqual([]);
  });

  test("an unlimited rule deep in the tree is enough for hasReplaces", () => {
    const text = `domain: d
descriptors:
  - { key: a, descriptors: [{ key: b, rate_limit: { unlimited: true, replaces: [{ name: n }] } }] }
  - { key: c, rate_limit: { rps: 1, name: n } }
`;
    expect(rulesFromYaml(text).domains.get("d")?.hasReplaces).toBe(true);
  });
});

describe("problems", () => {
  test("all mistakes of all files are reported at once, in order", () => {
    const bad = (key: string) =>
      `domain: ${key}\nquotas: 1\ndescriptors:\n  - { key: "", ${LIMIT} }\n  - { key: b, ${LIMIT}, valu: x }\n`;
    expect(errorsOf([bad("d"), bad("e")])).toEqual([
      "a.yaml:2:1",
      "a.yaml:4:12",
      "a.yaml:5:67",
      "b.yaml:2:1",
      "b.yaml:4:12",
      "b.yaml:5:67",
    ]);
  });

  test("reports a mistake in an anchor once, however often it is used", () => {
    const text =
      "domain: d\ndescriptors:\n  - &a { key: a, rate_limit: { unit: eon, requests_per_unit: 1 } }\n  - { <<: *a, key: b }\n";
    expect(errorsOf(text)).toEqual(["a.yaml:3:38"]);
  });

  test("a problem with a name of 64 KiB has a text of a thousand characters, with both ends of the sentence", () => {
    const { problems } = compileYaml([`domain: d\ndescriptors: [{ key: a, ${"x".repeat(60_000)}: 1 }]\n`]);
    const [{ message = "" } = {}] = problems;
    expect(message.length).toBeLessThan(1_000);
    expect(message).toMatch(/^unknown key 'xxx.* \.\.\. .*, rarely$/);
  });

  test("a file of rubbish has a bounded number of problems, errors before warnings", () => {
    const log = new ProblemLog();
    for (let line = 1; line <= PROBLEMS_MAX * 3; line++) log.warn({ file: "f", line, column: 1 }, "w");
    for (let line = 1; line <= 10; line++) log.error({ file: "f", line: line * 50, column: 2 }, "e");
    const sorted = log.sorted();
    expect(sorted).toHaveLength(PROBLEMS_MAX);
    expect(sorted.filter(({ severity }) => severity === "error")).toHaveLength(10);
  });
});
