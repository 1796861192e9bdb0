// Whatever is in files next to a control plane's rules, its set is judged as if they were not there.

import * as fc from "fast-check";
import { expect, test } from "vitest";
import { parseFile } from "../../src/rule-sources/files/parse-file.ts";
import { compileSet } from "../../src/rule-sources/xds/compile-set.ts";
import { resourceFile } from "../support/resources.ts";
import { PlainStatsBook } from "../support/rules.ts";
import { runs } from "../support/runs.ts";

const GOOD = [
  { key: "user", rate_limit: { unit: "HOUR", requests_per_unit: 4_000_000 } },
  { key: "weight", value: "w", rate_limit: { unit: "DAY", requests_per_unit: 1, name: "n" } },
  { key: "held", descriptors: [{ key: "hour-7", rate_limit: { unit: "HOUR", requests_per_unit: 9 } }] },
];
const BAD = [{ key: "user", rate_limit: { unit: "UNKNOWN", requests_per_unit: 4 } }];

// Each of them is at odds with the resources, with another of them, or with itself.
const RULES = [
  "{ key: user, rate_limit: { unit: hour, requests_per_unit: 1 } }",
  "{ key: weight, value: w, descriptors: [{ key: x, rate_limit: { unit: day, requests_per_unit: 1 } }] }",
  "{ key: own, cost: { entry: weight }, rate_limit: { unit: day, requests_per_unit: 1 } }",
  "{ key: own, rate_limit: { unit: day, requests_per_unit: 1, name: n, replaces: [{ name: m }] } }",
  "{ key: own, rate_limit: { unit: year } }",
  "{ kye: own }",
  "{ key: own, match: { regex: '(' }, rate_limit: { unit: day, requests_per_unit: 1 } }",
  "{ key: '*', rate_limit: { unit: day, requests_per_unit: 1 } }",
];
const TOPS = [
  "global_limit: { unit: second, requests_per_unit: 5 }",
  "defaults: { algorithm: sliding_log }",
  "defaults: { sync: lease, algorithm: token_bucket }",
  "defaults: { post_paid: true, sync: lease }",
  "defaults: { post_paid: perhaps }",
  "defaults: { algorithm: fixed_window, hold: { id: weight, ttl: 1m } }",
  "defaults: { hold: { id: hour-*, estimate: user, ttl: 1m }, concurrent: 3 }",
  "defaults: { hold: { ttl: soon } }",
  "defaults: 7",
  "global_limit: []",
  "extra: [",
];

const file = fc
  .record({
    domain: fc.constantFrom("edge", "edge", "other", ""),
    tops: fc.subarray(TOPS, { maxLength: 2 }),
    rules: fc.subarray(RULES, { maxLength: 3 }),
  })
  .map(({ domain, tops, rules }) => [`domain: ${domain}`, ...tops, `descriptors: [${rules.join(", ")}]`].join("\n"));

// Promise(xds): Files next to a set don't change whether it is rejected.
test("a good set is good and a bad one bad with any files; what is left out is named", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(file, { maxLength: 3 }), fc.boolean(), async (texts, mergeDomains) => {
      const files = texts.map((text, i) => parseFile({ name: `f${i}.yaml`, bytes: Buffer.from(text) }));
      const compile = (descriptors: typeof GOOD) =>
        compileSet([resourceFile({ name: "edge", domain: "edge", descriptors })], files, {
          statsBook: new PlainStatsBook(),
          mergeDomains,
        });
      const { ruleSet, problems } = await compile(GOOD);
      const edge = ruleSet?.domains.get("edge");
      expect(edge?.root.rules.slice(0, 2).map(({ at }) => at.file)).toEqual(["resource edge", "resource edge"]);
      expect(problems.filter(({ severity }) => severity === "error")).toEqual([]);
      for (const { name } of files) {
        const isNamed = problems.some(
          ({ file: about, message }) => about === name && message.startsWith("the file is ignored"),
        );
        expect(isNamed).toBe(ruleSet?.files.includes(name) === false);
      }
      const bad = await compile(BAD as typeof GOOD);
      expect(bad.ruleSet).toBeUndefined();
      expect(bad.problems.some(({ severity, path }) => severity === "error" && path?.endsWith("unit"))).toBe(true);
      // The files are not to blame.
      expect(bad.problems.filter(({ file }) => file !== "resource edge")).toEqual([]);
    }),
    { numRuns: runs(150) },
  );
});
