// The rule files that the reference's behaviour was recorded with, sent by a control plane instead: the same rules come of them,
// so what test/vectors holds of files holds of resources, as far as the messages have fields for it.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { compileRules } from "../../../src/engine/rules/compile.ts";
import type { RuleSet } from "../../../src/engine/rules/rule-set.ts";
import type { SourceFile } from "../../../src/engine/rules/source.ts";
import { parseFile } from "../../../src/rule-sources/files/parse-file.ts";
import { resourcesOf } from "../../support/files-as-resources.ts";
import { resourceFile } from "../../support/resources.ts";
import { PlainStatsBook } from "../../support/rules.ts";

interface RecordedFiles {
  readonly name: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
}

const cases = JSON.parse(
  readFileSync(resolve(import.meta.dirname, "../../fixtures/vectors/cases.json"), "utf8"),
) as RecordedFiles[];

/** Undefined if the files say what no message can, or can't be used at all. */
function bothWays({ env = {}, files = {} }: RecordedFiles): [RuleSet, RuleSet | undefined] | undefined {
  const sources = Object.entries(files).map(([name, content]) => parseFile({ name, bytes: Buffer.from(content) }));
  const mergeDomains = env.MERGE_DOMAIN_CONFIG === "true";
  const compile = (from: readonly SourceFile[]) =>
    compileRules(from, { statsBook: new PlainStatsBook(), compatible: true, mergeDomains }).ruleSet;
  const ofFiles = compile(sources);
  if (ofFiles === undefined) return undefined;
  const resources = resourcesOf(files);
  return resources === undefined ? undefined : [ofFiles, compile(resources.map(resourceFile))];
}

const expressible = cases.flatMap((one) => {
  const both = bothWays(one);
  return both === undefined ? [] : [{ name: one.name, ofFiles: both[0], ofResources: both[1] }];
});

test("most of the recorded rules can be sent", () => {
  expect(expressible.length).toBeGreaterThan(cases.length / 2);
});

// Promise(xds): A resource means what a file with the same words means.
test.each(expressible)("$name: the same rules by a control plane", ({ ofFiles, ofResources }) => {
  expect(shape(ofResources)).toEqual(shape(ofFiles));
});

/** Everything that calls are decided by and counted under. */
function shape(rules: RuleSet | undefined): unknown {
  const left = ["at", "stats", "unmatched", "files", "warnings", "chargesGivenHits", "path", "pathElement", "id"];
  return JSON.parse(
    JSON.stringify(rules ?? null, (key, inner) => {
      if (left.includes(key)) return undefined;
      // On a rule without a limit these mean nothing.
      if (inner?.hasLimit === false) return { ...inner, kind: 0, isQuota: false, detailedMetric: false };
      return inner instanceof Map ? [...inner] : inner instanceof Set ? [...inner] : inner;
    }),
  );
}
