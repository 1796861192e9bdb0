// The JSON Schemas for editors against the readers: what loads is good for the schema, and mistakes in keys and values are seen.

import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Ajv } from "ajv";
import { describe, expect, test } from "vitest";
import type { SourceNode } from "../../../src/engine/rules/source.ts";
import { parseHere } from "../../../src/rule-sources/files/parse-in-thread.ts";
import { hasCases, readCases } from "../../../src/tools/simulate/cases/read-cases.ts";
import { casesSchema, rulesSchema } from "../../support/json-schemas.ts";
import { compileYaml } from "../../support/rules.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const ajv = new Ajv({ allowUnionTypes: true, allErrors: true });
const isRules = ajv.compile(rulesSchema());
const isCases = ajv.compile(casesSchema());

/** Fixtures whose mistake only the reader finds: it depends on other keys, or takes a list of zones, addresses or calendars to see. */
const BEYOND_A_SCHEMA = [
  "calendar-month-starts-on",
  "calendar-quarter-starts-on",
  "calendar-unknown-zone",
  "calendar-week-starts-on",
  "calendar-year-starts-on",
  "calendar-zone-in-small-letters",
  "calendar-zone-is-an-offset",
  "cost-per-max-too-large",
  "hold-ttl-too-long",
  "limit-unit-missing",
  "limit-window-too-long",
  "match-cidr-broken",
  "match-cidr-host-bits",
];

const files = ["deploy", "examples", "test/cases", "test/fixtures/rules"].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.ya?ml$/.test(file) && !file.includes("node_modules"))
    .map((file) => ({ file: `${folder}/${file}`, bytes: readFileSync(join(ROOT, folder, file)) })),
);
const sources = files.map(({ file, bytes }) => ({ file, bytes, source: parseHere([{ name: file, bytes }])[0] }));

/** The document as an editor has it. */
function plainOf(node: SourceNode): unknown {
  if (node.kind === "sequence") return node.items.map(plainOf);
  if (node.kind === "mapping")
    return Object.fromEntries(node.entries.map(({ key, value }) => [key.text, plainOf(value)]));
  const { value, text } = node;
  if (value.type === "null") return null;
  if (value.type === "boolean") return value.boolean;
  return value.type === "text" || value.type === "binary" ? text : value.number;
}

function errorsOf(is: typeof isRules, document: unknown): readonly string[] {
  return is(document) ? [] : (is.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}

describe("the schema of rule files", () => {
  const read = sources.flatMap(({ file, bytes, source }) => {
    if (source?.root === undefined || hasCases(source)) return [];
    const { ruleSet, problems } = compileYaml({ [file]: bytes });
    const isOfRules = file.startsWith("test/fixtures") || ruleSet !== undefined;
    return isOfRules ? [{ file, document: plainOf(source.root), isGood: ruleSet !== undefined, problems }] : [];
  });

  test("is what deploy/schemas has", async () => {
    const text = `${JSON.stringify(rulesSchema(), undefined, 2)}\n`;
    await expect(text).toMatchFileSnapshot("../../../deploy/schemas/rules.schema.json");
  });

  test("offers an editor no key that is ignored, and accepts it", () => {
    const { $defs } = rulesSchema() as {
      $defs: Record<string, { properties: Record<string, { deprecated?: boolean }> }>;
    };
    const offered = Object.values($defs).flatMap(({ properties }) => Object.entries(properties));
    expect(offered.filter(([, { deprecated }]) => deprecated).map(([key]) => key)).toEqual([]);
    expect(Object.keys($defs.rule?.properties ?? {})).not.toContain("unit");
    expect(errorsOf(isRules, { domain: "d", descriptors: [{ key: "a", unit: "day" }] })).toEqual([]);
  });

  test("accepts every file that loads", () => {
    const good = read.filter(({ isGood }) => isGood);
    expect(good.length).toBeGreaterThan(30);
    expect(good.map(({ file, document }) => [file, errorsOf(isRules, document)])).toEqual(
      good.map(({ file }) => [file, []]),
    );
  });

  test("sees unknown keys, and values that are wrong by themselves", () => {
    const seen = read.filter(({ problems }) =>
      problems.some(
        ({ severity, message }) =>
          severity === "error" && /^unknown key|: expected (?!at least|at most \d)/.test(message),
      ),
    );
    expect(seen.length).toBeGreaterThan(20);
    const unseen = seen.filter(({ document }) => isRules(document)).map(({ file }) => file);
    expect(unseen.map((file) => file.replace(/^.*\/|\.in\.yaml$/g, ""))).toEqual(BEYOND_A_SCHEMA);
  });
});

describe("the schema of cases", () => {
  test("is what deploy/schemas has", async () => {
    const text = `${JSON.stringify(casesSchema(), undefined, 2)}\n`;
    await expect(text).toMatchFileSnapshot("../../../deploy/schemas/cases.schema.json");
  });

  test("accepts every file of cases that loads", () => {
    const good = sources.flatMap(({ file, source }) => {
      const isGood = source !== undefined && hasCases(source) && readCases(source).file !== undefined;
      return isGood && source.root !== undefined ? [{ file, document: plainOf(source.root) }] : [];
    });
    expect(good.length).toBeGreaterThan(10);
    expect(good.map(({ file, document }) => [file, errorsOf(isCases, document)])).toEqual(
      good.map(({ file }) => [file, []]),
    );
  });

  test.each([
    ["a misspelt key", { cases: [{ name: "a", steps: [{ cal: "tenant=a" }] }] }],
    ["no steps", { cases: [{ name: "a", steps: [] }] }],
    ["an unknown code", { cases: [{ name: "a", steps: [{ call: "tenant=a", expect: "NO" }] }] }],
    ["a count in quotes", { cases: [{ name: "a", steps: [{ call: "tenant=a", times: "3" }] }] }],
  ])("sees %s", (_, document) => expect(isCases(document)).toBe(false));
});
