// What a file exports, another file names: an export that nobody imports is dead, or need not be one.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { PACKAGES, testSources } from "../support/own-packages.ts";
import { filesOf } from "./imports.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const EXPORT = /^export (?:abstract |async )?(?:class|const|enum|function\*?|interface|type) (\w+)/gm;

interface Source {
  readonly path: string;
  readonly text: string;
}

/** Exports of `exporting` whose names stand in no other file of `all`, as "path: name". */
function unusedExports(exporting: readonly Source[], all: readonly Source[]): string[] {
  const filesByWord = new Map<string, Set<string>>();
  for (const { path, text } of all) {
    for (const [word] of text.matchAll(/\w+/g)) {
      const files = filesByWord.get(word) ?? new Set();
      filesByWord.set(word, files.add(path));
    }
  }
  return exporting.flatMap(({ path, text }) =>
    [...text.matchAll(EXPORT)]
      .map(([, name = ""]) => name)
      .filter((name) => (filesByWord.get(name)?.size ?? 0) < 2)
      .map((name) => `${path}: ${name}`),
  );
}

function sourcesIn(folder: string): Source[] {
  return filesOf(resolve(ROOT, folder)).map((file) => sourceOf(`${folder}/${file}`));
}

function sourceOf(path: string): Source {
  return { path, text: readFileSync(resolve(ROOT, path), "utf8") };
}

test("every export of the service and of the packages is named in another file", () => {
  const exporting = ["src", ...PACKAGES.map((folder) => `${folder}/src`)].flatMap(sourcesIn);
  expect(unusedExports(exporting, [...exporting, ...testSources().map(sourceOf)])).toEqual([]);
});

test("an exported name means one thing in all of src", () => {
  const files = new Map<string, Set<string>>();
  for (const { path, text } of sourcesIn("src"))
    for (const [, name = ""] of text.matchAll(EXPORT)) files.set(name, (files.get(name) ?? new Set()).add(path));
  const twice = [...files].filter(([, paths]) => paths.size > 1);
  expect(twice.map(([name, paths]) => `${name}: ${[...paths].join(", ")}`)).toEqual([]);
});

test("an export that no other file names is found", () => {
  const one = {
    path: "one.ts",
    text: "export function used() {}\nexport const unused = 1;\nexport interface Unused {}\n",
  };
  const other = { path: "other.ts", text: 'import { used } from "./one.ts";\n' };
  expect(unusedExports([one, other], [one, other])).toEqual(["one.ts: unused", "one.ts: Unused"]);
});
