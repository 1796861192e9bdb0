// What the docs list is what the code has, in both directions.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { readPlan } from "../../packages/verify/src/read-plan.ts";
import {
  CONFIG_ERROR_CODES,
  REQUEST_ERROR_CODES,
  SERVICE_ERROR_CODES,
  STORE_ERROR_CODES,
} from "../../src/base/errors.ts";
import { formatProblem } from "../../src/engine/rules/problems.ts";
import { type MetricRow, RULE_METRICS } from "../../src/operate/telemetry/metrics.ts";
import { METRICS } from "../../src/process/app/metrics-table.ts";
import { PACKAGES } from "../support/own-packages.ts";
import { compileYaml } from "../support/rules.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const readDoc = (file: string) => readFileSync(resolve(ROOT, file), "utf8");

const PAGES = [
  "README.md",
  "CONTRIBUTING.md",
  "CHANGELOG.md",
  "SECURITY.md",
  "RELEASING.md",
  ...PACKAGES.map((folder) => `${folder}/README.md`),
  "examples/README.md",
  ...["haproxy", "kong", "nginx", "traefik"].map((name) => `examples/${name}/README.md`),
].concat(
  ["docs", "src", "proto", "test"].flatMap((folder) =>
    readdirSync(resolve(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".md") && !file.includes("node_modules"))
      .map((file) => `${folder}/${file}`),
  ),
);

/** The anchors of a page: its headings as GitHub names them. */
function anchorsOf(file: string): readonly string[] {
  const headings = readFileSync(file, "utf8").matchAll(/^#+ (.*)$/gm);
  return [...headings].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replace(/[^\w\s-]/g, "")
      .replaceAll(" ", "-"),
  );
}

/** Links of a page to files and headings that are not there, and folders or files it names that are not there. */
function deadEndsOf(page: string): readonly string[] {
  const text = readDoc(page);
  const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
  const dead = links.filter((target) => {
    const [path = "", anchor] = target.split("#");
    if (/^https?:/.test(path)) return false;
    const file = path === "" ? resolve(ROOT, page) : resolve(ROOT, dirname(page), path);
    return !existsSync(file) || (anchor !== undefined && !anchorsOf(file).includes(anchor));
  });
  const named = [...text.matchAll(/`((?:src|test|docs|deploy|bench|lua|sql|proto|examples|packages)\/[\w./-]+)`/g)];
  const missing = named.map(([, path = ""]) => path).filter((path) => !existsSync(resolve(ROOT, path)));
  return [...dead, ...missing].map((target) => `${page}: ${target}`);
}

describe("docs", () => {
  test("no page leads to a file or a heading that is not there", () => {
    expect(PAGES.flatMap(deadEndsOf)).toEqual([]);
    expect(PAGES.length).toBeGreaterThan(20);
  });

  test.each(PACKAGES)("the page of %s leads to nothing that the package has not", (folder) => {
    const { files } = JSON.parse(readDoc(`${folder}/package.json`)) as { readonly files: readonly string[] };
    const targets = [...readDoc(`${folder}/README.md`).matchAll(/\]\(([^)#\s]+)/g)].map(([, target = ""]) => target);
    const packed = (target: string) => /^https?:/.test(target) || files.some((file) => target.startsWith(file));
    expect(targets.filter((target) => !packed(target))).toEqual([]);
  });

  test("every page is linked from the README, the way in by role, or its folder's own list", () => {
    const lists = ["README.md", "docs/README.md", "docs/decisions/README.md"].map((list) => ({
      list,
      text: readDoc(list),
    }));
    const unlisted = PAGES.filter((page) => page.startsWith("docs/")).filter(
      (page) => !lists.some(({ list, text }) => text.includes(`](${relative(dirname(list), page)})`)),
    );
    expect(unlisted).toEqual([]);
  });

  test("docs/errors.md explains every code there is, and no other", () => {
    const listed = [...readDoc("docs/errors.md").matchAll(/^\| `([A-Z]+_[A-Z0-9_]+)` \|/gm)].map((match) => match[1]);
    const known = [...REQUEST_ERROR_CODES, ...STORE_ERROR_CODES, ...SERVICE_ERROR_CODES, ...CONFIG_ERROR_CODES];
    expect(listed.toSorted()).toEqual(known.toSorted());
  });

  test("docs/metrics.md has every metric with its kind, labels and help, and no other", () => {
    const listed = [...readDoc("docs/metrics.md").matchAll(/^\| `(\w+_\w+)` \| (.*) \|$/gm)].map(
      (row) => `${row[1]} | ${row[2]}`,
    );
    const known: readonly MetricRow[] = Object.values(METRICS);
    const rows = known.map(({ name, kind, labels, help }) => {
      const by = labels.length === 0 ? "" : ` by ${labels.join(", ")}`;
      return `${name} | ${kind}${by} | ${help}`;
    });
    const ofRules = Object.values(RULE_METRICS).map(({ name, help }) => `${name} | ${help}`);
    expect(listed.toSorted()).toEqual([...rows, ...ofRules].toSorted());
  });

  test("docs/dependencies.md says why each package is there, and of no other", () => {
    const manifest = JSON.parse(readDoc("package.json")) as Record<string, Record<string, string>>;
    const listed = [...readDoc("docs/dependencies.md").matchAll(/^\| `([^`]+)` \|/gm)].map((match) => match[1]);
    const known = [...Object.keys(manifest.dependencies ?? {}), ...Object.keys(manifest.devDependencies ?? {})];
    expect(listed.toSorted()).toEqual(known.toSorted());
  });

  test("what the docs show as YAML is read without a problem by what would read it", () => {
    const blocks = PAGES.flatMap((page) =>
      [...readDoc(page).matchAll(/^```yaml\n(.*?)^```/gms)].map(([, text = ""]) => ({ page, text })),
    );
    // A block may have parts for several places of a file; each begins with a comment that names its place.
    const parts = blocks.flatMap(({ page, text }) => text.split(/\n\n(?=# into)/).map((part) => ({ page, part })));
    expect(
      parts.flatMap(({ page, part }) => problemsOf(part).map((problem) => `${page}: ${problem}\n${part}`)),
    ).toEqual([]);
    expect(parts.length).toBeGreaterThan(20);
  });

  test("each log line that the docs have people search for is one that Headgate writes", () => {
    const searched = PAGES.flatMap((page) =>
      [...readDoc(page).matchAll(/\blogs \| grep '([^']+)'/g)].map(([, text = ""]) => text),
    );
    const source = readdirSync(resolve(ROOT, "src"), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .map((file) => readDoc(`src/${file}`));
    expect(searched.filter((text) => !source.some((code) => code.includes(text)))).toEqual([]);
    expect(searched.length).toBeGreaterThan(2);
  });
});

/** Mistakes in a rule file or a part of one, a plan of `verify`, or any other YAML. */
function problemsOf(text: string): readonly string[] {
  const ruleFile = text.startsWith("- key:") ? `domain: shown\ndescriptors:\n${text.replace(/^/gm, "  ")}` : text;
  try {
    const value = parse(ruleFile);
    if (value?.servers !== undefined) {
      const plan = readPlan(value, 1);
      return "servers" in plan ? [] : plan;
    }
    const isRules = value?.descriptors !== undefined && value.domain !== undefined;
    return isRules ? compileYaml(ruleFile).problems.map(formatProblem) : [];
  } catch (error) {
    return [String(error)];
  }
}
