// Every file of test/fixtures/rules against the file next to it: `.problems.txt` for one mistake each, `.out.json` for
// what a good file becomes. UPDATE_FIXTURES=1 writes them again; read the difference before you keep it.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { formatProblem } from "../../../../src/engine/rules/problems.ts";
import { summarise } from "../../../support/rule-summary.ts";
import { compileYaml } from "../../../support/rules.ts";

const FOLDER = resolve(import.meta.dirname, "../../../fixtures/rules");
const CASES = readdirSync(FOLDER)
  .filter((file) => file.endsWith(".in.yaml"))
  .map((file) => ({ name: file.slice(0, -".in.yaml".length) }));

function compileCase(name: string) {
  const file = `${name}.in.yaml`;
  return compileYaml({ [file]: readFileSync(join(FOLDER, file)) });
}

function expected(path: string, actual: string): string {
  if (process.env.UPDATE_FIXTURES === "1") writeFileSync(path, actual);
  return readFileSync(path, "utf8");
}

describe("fixtures of rule files", () => {
  const good = CASES.filter(({ name }) => existsSync(join(FOLDER, `${name}.out.json`)));
  const bad = CASES.filter((one) => !good.includes(one));

  // Promise(rules): `tokens_per_second` and `rps` mean the same; the burst is the rate unless given.
  test.each(good)("$name compiles to its .out.json", ({ name }) => {
    const { ruleSet, problems } = compileCase(name);
    expect(problems.map(formatProblem)).toEqual([]);
    const text = `${JSON.stringify(ruleSet === undefined ? {} : summarise(ruleSet), undefined, 2)}\n`;
    expect(text).toBe(expected(join(FOLDER, `${name}.out.json`), text));
  });

  // Promise(rules): A burst below the rate is rejected with its place in the file.
  test.each(bad)("$name has the problems of its .problems.txt", ({ name }) => {
    const { problems } = compileCase(name);
    const text = problems.map((problem) => `${formatProblem(problem)}\n`).join("");
    expect(text).not.toBe("");
    expect(text).toBe(expected(join(FOLDER, `${name}.problems.txt`), text));
  });
});
