// Files that docs and comments name are there: a rename takes its mentions along.

import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { PACKAGES } from "../support/own-packages.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const FOLDERS = [
  "src",
  ...PACKAGES.flatMap((folder) => [`${folder}/src`, `${folder}/test`]),
  "page",
  "playground",
  "lua",
  "sql",
  "test",
  "bench",
  "docs",
  "deploy",
  "examples",
  "proto",
  ".ci",
];
const PAGES = ["README.md", "CONTRIBUTING.md", "RELEASING.md", "vitest.config.ts"].concat(
  PACKAGES.map((folder) => `${folder}/README.md`),
);
/** Not the types of Envoy's Lua filter, whose names go on with a version. */
const MENTION = /(?<![\w.*/-])(?:[\w.-]+\/)*[\w.-]*\w\.(?:ts|mjs|lua|sql)\b(?!\.v\d)/g;
const COMMENT = /^\s*(?:\/\/|\/?\*|--)|\s\/\/ /;

function filesIn(folder: string): string[] {
  return readdirSync(resolve(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.(?:ts|mjs|lua|sql|md)$/.test(file) && !file.includes("node_modules"))
    .map((file) => `${folder}/${file}`);
}

/** What the text names that is none of the files; of code only the comments speak. */
function missingFiles(path: string, text: string, files: readonly string[]): string[] {
  const isPage = path.endsWith(".md");
  return text.split("\n").flatMap((line, index) => {
    if (!isPage && !COMMENT.test(line)) return [];
    return [...line.matchAll(MENTION)]
      .map(([mention]) => mention.replace(/^(?:\.\.?\/)+/, ""))
      .filter((mention) => !files.some((file) => file === mention || file.endsWith(`/${mention}`)))
      .map((mention) => `${path}:${index + 1}: ${mention}`);
  });
}

test("files that docs and comments name are there", () => {
  const files = [...FOLDERS.flatMap(filesIn), ...PAGES];
  expect(files.flatMap((file) => missingFiles(file, readFileSync(resolve(ROOT, file), "utf8"), files))).toEqual([]);
});

test("a name that no file has is found, in a page and in a comment", () => {
  const text = "// see there.ts and core/gone.ts\nimport './any.ts';\n";
  expect(missingFiles("one.ts", text, ["src/there.ts"])).toEqual(["one.ts:1: core/gone.ts"]);
  expect(missingFiles("one.md", "`there.ts`, `gone.lua`", ["src/there.ts"])).toEqual(["one.md:1: gone.lua"]);
});
