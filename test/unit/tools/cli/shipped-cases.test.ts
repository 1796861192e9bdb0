// Rules that are shipped, and every recipe of the docs, answer what `headgate test` expects of them: every limit is met, and
// refuses a call.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import type { CoverageReport } from "../../../../src/tools/simulate/cases/coverage.ts";
import { runProgram } from "../../../support/run-program.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const ROOT = resolve(import.meta.dirname, "../../../..");
const folder = temporaryFolder("headgate-shipped");

/** Blocks of rules in a page, in its order: those that begin with a domain or with rules. */
function recipesOf(page: string): readonly string[] {
  const text = readFileSync(join(ROOT, page), "utf8");
  const blocks = [...text.matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, block = ""]) => block);
  return blocks.filter((block) => /^(?:domain:|descriptors:|- key:)/.test(block)).map(asFile);
}

/** A whole file of a recipe that shows only what matters. */
function asFile(block: string): string {
  if (block.startsWith("domain:")) return block;
  return block.startsWith("descriptors:") ? `domain: edge\n${block}` : `domain: edge\ndescriptors:\n${block}`;
}

const PAGES = [
  "README.md",
  ...readdirSync(join(ROOT, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];
const recipes = PAGES.flatMap((page) =>
  recipesOf(page).map((text, i) => ({ name: `${basename(page, ".md")}-${i + 1}`, text })),
);

async function coverageOf(cases: string, rules?: string): Promise<CoverageReport> {
  const chosen = rules === undefined ? [] : ["--rules", rules];
  const { out, exitCode } = await runProgram(["test", ...chosen, cases, "--format", "json"]);
  expect(out, "keys in snake_case").not.toMatch(/^ *"\w*[A-Z]\w*":/m);
  const run = JSON.parse(out) as { files: unknown; coverage: { report: CoverageReport }[] };
  expect({ exitCode, files: exitCode === 0 ? [] : run.files }).toEqual({ exitCode: 0, files: [] });
  return run.coverage[0]?.report as CoverageReport;
}

async function expectPassed(args: readonly string[], says: string): Promise<void> {
  const { out, exitCode } = await runProgram(["test", ...args]);
  expect([out.match(/expected.*/)?.[0], out.match(/^.* passed, \d+ calls$/m)?.[0], exitCode]).toEqual([
    undefined,
    expect.stringContaining(says),
    0,
  ]);
}

describe("cases of what is shipped", () => {
  test.each([["deploy/cases/edge.yaml"], ["deploy/cases/llm.yaml"], ["test/cases/kubernetes.yaml"]])(
    "%s pass and leave no limit out",
    async (cases) => {
      expect(await coverageOf(join(ROOT, cases))).toMatchObject({ never_met: [], never_refusing: [] });
    },
  );

  test("docs/testing-rules.md shows steps of holds that the rules of docs/rules-file.md pass", async () => {
    const page = readFileSync(join(ROOT, "docs/testing-rules.md"), "utf8");
    const [, block = ""] = /^## Holds\n.*?^```yaml\n(.*?)^```$/ms.exec(page) ?? [];
    const rules = join(folder, "holds.yaml");
    writeFileSync(rules, recipes.find(({ name }) => name === "rules-file-3")?.text ?? "");
    const cases = join(folder, "steps.yaml");
    writeFileSync(cases, `domain: edge\ncases:\n- name: steps\n  steps:\n${block.replace(/^/gm, "  ")}`);
    await expectPassed(["--rules", rules, cases], "1 of 1 case passed, 5 calls");
  });

  test("the chart's rules answer as those of the overlays", async () => {
    const values = readFileSync(join(ROOT, "deploy/helm/headgate/values.yaml"), "utf8");
    const [, block = ""] = /^rules:\n {2}edge\.yaml: \|\n((?: {4}.*\n|\n)+)/m.exec(values) ?? [];
    const rules = join(folder, "chart.yaml");
    writeFileSync(rules, block.replace(/^ {4}/gm, ""));
    expect(await coverageOf(join(ROOT, "test/cases/kubernetes.yaml"), rules)).toMatchObject({
      never_met: [],
      never_refusing: [],
    });
  });

  test("every recipe of the docs has cases, and no others are there", () => {
    const files = readdirSync(join(ROOT, "test/cases/docs")).map((name) => basename(name, ".yaml"));
    expect(files.toSorted()).toEqual(recipes.map(({ name }) => name).toSorted());
  });

  // Promise(rules): Shipped rules, the chart's and every recipe of the docs answer as their cases say.
  test.each(recipes)("the recipe $name does what its cases say, every limit of it", async ({ name, text }) => {
    const rules = join(folder, `${name}.yaml`);
    writeFileSync(rules, text);
    const report = await coverageOf(join(ROOT, "test/cases/docs", `${name}.yaml`), rules);
    expect(report).toMatchObject({ never_met: [], never_refusing: [] });
  });
});
