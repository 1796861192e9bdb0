// How tests are run: nothing is tried twice, generated tests are scaled in one place, folders come from one place.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { testSources } from "../support/own-packages.ts";
import { promiseMarks } from "../support/promises-page.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const textOf = (file: string) => readFileSync(join(ROOT, file), "utf8");

const tests = testSources();
const configs = ["vitest.config.ts", ...tests.filter((file) => file.endsWith("vitest.config.ts"))];

/** Lines of the files that match, each with its place. */
function linesOf(files: readonly string[], wrong: RegExp): readonly string[] {
  return files.flatMap((file) =>
    textOf(file)
      .split("\n")
      .flatMap((line, index) => (wrong.test(line) ? [`${file}:${index + 1}: ${line.trim()}`] : [])),
  );
}

describe("a run of the tests", () => {
  test("tries nothing twice: no config, script or test asks for it", () => {
    expect(
      linesOf(
        ["package.json", ".ci/run", "vitest.config.ts", ...tests.filter((file) => file !== "test/tidy/runs.test.ts")],
        /\bretry: (?!0\b)[\w.]+,?$|--retry\b(?!\\)/,
      ),
    ).toEqual([]);
    for (const config of configs)
      expect([config, textOf(config)]).toEqual([config, expect.stringMatching(/retry: 0,/)]);
  });

  test("scales every generated test: numRuns is runs(full) of test/support/runs.ts", () => {
    expect(linesOf(tests, /\bnumRuns: (?!runs\()/).filter((line) => !line.startsWith("test/tidy/"))).toEqual([]);
  });

  test("takes every temporary folder from test/support/temporary-folder.ts", () => {
    const makers = [
      "test/support/temporary-folder.ts",
      "test/support/test-run.ts",
      "test/support/service-process.ts",
      "test/tidy/runs.test.ts",
    ];
    expect(
      linesOf(tests, /\btmpdir\(\)|["'`]\/tmp\//).filter((line) => !makers.some((maker) => line.startsWith(maker))),
    ).toEqual([]);
  });

  test("has all that keeps a promise, but for what CONTRIBUTING.md lists with its seconds and the reason", () => {
    const left = [...textOf("CONTRIBUTING.md").matchAll(/^\| `(test\/[^`]+)` \| \d+ \| \S.* \|$/gm)].map(
      ([, path = ""]) => path,
    );
    const promised = promiseMarks().map(({ file }) => file);
    const isOutside = (file: string) => /\.long\.test\.ts$|^test\/(envoy|page|soak)\//.test(file);
    const outside = [...promised, ...tests].filter((file) => file.includes(".test.") && isOutside(file));
    expect(outside.filter((file) => !left.some((path) => file.startsWith(path)))).toEqual([]);
    expect(left.filter((path) => !tests.some((file) => file.startsWith(path)))).toEqual([]);
  });
});
