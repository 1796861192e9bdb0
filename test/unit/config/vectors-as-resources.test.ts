// The rule files that the reference's behaviour was recorded with, sent by a control plane instead: the same rules come of them,
// so what test/vectors holds of files holds of resources, as far as the messages have fields for it.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { parseFile } from "../../../src/config/parse-file.ts";
import { UNIT_NAMES } from "../../../src/core/limit.ts";
import { compileRules } from "../../../src/rules/compile.ts";
import type { RuleSet } from "../../../src/rules/rule-set.ts";
import type { MappingNode, SourceFile, SourceNode } from "../../../src/rules/source.ts";
import { resourceFile, type WireConfig, type WireDescriptor } from "../../support/resources.ts";
import { PlainStatsBook } from "../../support/rules.ts";

interface RecordedFiles {
  readonly name: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
}

const cases = JSON.parse(
  readFileSync(resolve(import.meta.dirname, "../../fixtures/vectors/cases.json"), "utf8"),
) as RecordedFiles[];

/** Thrown for what no message can say. */
class NoField extends Error {}

function member(node: MappingNode, name: string): SourceNode | undefined {
  const found = node.entries.filter(({ key }) => key.text === name).at(-1)?.value;
  return found?.kind === "scalar" && found.value.type === "null" ? undefined : found;
}

function text(node: MappingNode, name: string): string {
  const found = member(node, name);
  return found?.kind === "scalar" ? found.text : "";
}

function isOn(node: MappingNode, name: string): boolean {
  return text(node, name) === "true";
}

function items(node: SourceNode | undefined): MappingNode[] {
  if (node === undefined) return [];
  if (node.kind !== "sequence") throw new NoField();
  return node.items.filter((item) => item.kind === "mapping");
}

const DESCRIPTOR = ["key", "value", "rate_limit", "descriptors", "shadow_mode", "detailed_metric", "quota_mode"];
const LIMIT = ["unit", "requests_per_unit", "unlimited", "name", "replaces"];

function onlyHas(node: MappingNode, names: readonly string[]): void {
  if (node.entries.some(({ key }) => !names.includes(key.text))) throw new NoField();
}

function descriptorOf(node: MappingNode): WireDescriptor {
  onlyHas(node, DESCRIPTOR);
  const limit = member(node, "rate_limit");
  return {
    key: text(node, "key"),
    value: text(node, "value"),
    ...(limit?.kind === "mapping" ? { rate_limit: limitOf(limit) } : {}),
    descriptors: items(member(node, "descriptors")).map(descriptorOf),
    shadow_mode: isOn(node, "shadow_mode"),
    detailed_metric: isOn(node, "detailed_metric"),
    quota_mode: isOn(node, "quota_mode"),
  };
}

function limitOf(node: MappingNode): NonNullable<WireDescriptor["rate_limit"]> {
  onlyHas(node, LIMIT);
  const unit = text(node, "unit").toLowerCase();
  if (unit !== "" && !UNIT_NAMES.some((name) => name === unit)) throw new NoField();
  const amount = member(node, "requests_per_unit");
  return {
    unit: unit.toUpperCase() || "UNKNOWN",
    requests_per_unit: amount?.kind === "scalar" && "number" in amount.value ? amount.value.number : 0,
    unlimited: isOn(node, "unlimited"),
    name: text(node, "name"),
    replaces: items(member(node, "replaces")).map((item) => ({ name: text(item, "name") })),
  };
}

function configOf({ name, root }: SourceFile): WireConfig {
  if (root?.kind !== "mapping") throw new NoField();
  onlyHas(root, ["domain", "descriptors"]);
  return { name, domain: text(root, "domain"), descriptors: items(member(root, "descriptors")).map(descriptorOf) };
}

/** Undefined if the files say what no message can, or can't be used at all. */
function bothWays({ env = {}, files = {} }: RecordedFiles): [RuleSet, RuleSet | undefined] | undefined {
  const sources = Object.entries(files).map(([name, content]) => parseFile({ name, bytes: Buffer.from(content) }));
  const mergeDomains = env.MERGE_DOMAIN_CONFIG === "true";
  const compile = (from: readonly SourceFile[]) =>
    compileRules(from, { statsBook: new PlainStatsBook(), compatible: true, mergeDomains }).ruleSet;
  const ofFiles = compile(sources);
  if (ofFiles === undefined) return undefined;
  try {
    return [ofFiles, compile(sources.map((source) => resourceFile(configOf(source))))];
  } catch (error) {
    if (error instanceof NoField) return undefined;
    throw error;
  }
}

const expressible = cases.flatMap((one) => {
  const both = bothWays(one);
  return both === undefined ? [] : [{ name: one.name, ofFiles: both[0], ofResources: both[1] }];
});

test("most of the recorded rules can be sent", () => {
  expect(expressible.length).toBeGreaterThan(cases.length / 2);
});

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
