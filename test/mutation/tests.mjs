// Runs the tests that can find a mistake, in one Vitest for all mistakes: those that have run the function it is in, the quickest first.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createVitest } from "vitest/node";

/** Tests run by parts, each in one go: what takes about so long together, the most specific first. The rest runs with `isWide`. */
const PART_MS = [3_000, 30_000];
/** Beyond three times what its tests took when they were recorded, and this: the mistake has made a loop endless, and counts as found. */
const SLACK_MS = 15_000;
/** They look at text, or start the program as it was built. */
const NOT_OF_CODE =
  /^(?:test\/(?:tidy|integration|unit\/(?:bench|ci|page|schemas|support))|packages)\/|^test\/(?:vectors\/m|fuzz\/http|fault\/(?:http|client|frame|overload|stream|service|memory))/;
/** What scripts do shows nowhere in what a test reaches. */
const MS_OF_LUA = 20_000;
const TESTS_OF_LUA = [/^test\/lua\//, /redis-store\.server|counters-agree|\/lua-agrees/];
const FUNCTION =
  /^\s*(?:export )?(?:default )?(?:static |async |get |set |override |private )*(?:function )?\*?(#?\w+)(?:<.*>)?\(.*(?:\{|\($)|^\s*(?:export )?(?:const|readonly) (\w+)\b.*=>|^\s*(?:async )?(#?\w+)(?:<.*>)?\($/;
const WORDS = new Set(["if", "for", "while", "switch", "catch", "return", "super"]);

/** Has the tests of a copy of the repository be run. */
export class Tests {
  #copy;
  #folder;
  #records;
  #vitest;
  #specifications;
  #isWide;

  /** `cache`: where what each test file reaches is kept from one run to the next. */
  constructor(copy, cache, isWide) {
    this.#isWide = isWide;
    this.#copy = copy;
    this.#folder = join(cache, "reach");
  }

  /** Starts Vitest; records what each test file reaches if that isn't known. */
  async start() {
    const setup = join(this.#copy, "test/support/each-file.ts");
    const text = readFileSync(setup, "utf8");
    if (!existsSync(this.#folder)) {
      mkdirSync(this.#folder, { recursive: true });
      process.env.REACH_FOLDER = this.#folder;
      const recording = `import { beginFile, endFile } from "../mutation/record-reach.mjs";\nbeforeAll(beginFile);\nafterAll(endFile);\n`;
      writeFileSync(setup, recording + text);
      await this.#open(0);
      await this.#vitest.runTestSpecifications(
        this.#specifications.filter(({ moduleId }) => isOfCode(this.#fileOf(moduleId))),
      );
      const failed = new Set(this.#vitest.state.getFailedFilepaths().map((path) => this.#fileOf(path)));
      await this.#vitest.close();
      writeFileSync(setup, text);
      if (failed.size > 0) console.log(`left out, because they fail without a mistake: ${[...failed].join(", ")}`);
      for (const [path, { file }] of this.#recorded()) if (failed.has(file)) rmSync(path);
    }
    this.#records = this.#recorded()
      .map(([, { file, ms, reached }]) => ({ file, ms, reached: new Set(reached) }))
      .toSorted((one, other) => one.reached.size - other.reached.size);
    await this.#open(1);
  }

  async close() {
    await this.#vitest.close();
  }

  /** Which file of tests finds the mistake that has been made in a line, if any; and how many ran. */
  async find({ file, at }, text) {
    this.#vitest.invalidateFile(join(this.#copy, file));
    const tests = file.startsWith("lua/") ? this.#ofLua() : this.#of(file, text, at);
    let ran = 0;
    for (const part of tests) {
      if (part.length === 0) continue;
      ran += part.length;
      const by = await this.#failed(part);
      if (by !== undefined) return { by, ran };
    }
    return { by: undefined, ran };
  }

  async #open(bail) {
    this.#vitest = await createVitest("test", {
      root: this.#copy,
      watch: false,
      project: ["unit", "servers"],
      bail,
      update: false,
      reporters: [{}],
      silent: true,
    });
    this.#specifications = await this.#vitest.globTestSpecifications();
  }

  #recorded() {
    const paths = readdirSync(this.#folder).map((name) => join(this.#folder, name));
    return paths.map((path) => [path, JSON.parse(readFileSync(path, "utf8"))]);
  }

  #fileOf(path) {
    return path.slice(this.#copy.length + 1);
  }

  #of(file, text, at) {
    const name = `${file}#${functionAt(text, at)}`;
    const all = this.#records.filter(({ reached }) => [...reached].some((each) => each.startsWith(`${file}#`)));
    const same = this.#records.filter(({ reached }) => reached.has(name));
    return parts(same.length > 0 ? same : all, this.#isWide);
  }

  #ofLua() {
    return TESTS_OF_LUA.map((pattern) =>
      this.#specifications
        .map(({ moduleId }) => ({ file: this.#fileOf(moduleId), ms: MS_OF_LUA }))
        .filter(({ file }) => pattern.test(file)),
    );
  }

  async #failed(records) {
    const paths = new Set(records.map(({ file }) => join(this.#copy, file)));
    const timer = setTimeout(endChildren, SLACK_MS + 3 * records.reduce((sum, { ms }) => sum + ms, 0));
    try {
      await this.#vitest.runTestSpecifications(this.#specifications.filter(({ moduleId }) => paths.has(moduleId)));
    } finally {
      clearTimeout(timer);
    }
    const { state } = this.#vitest;
    const failed = state.getFailedFilepaths().find((path) => paths.has(path));
    const errors = state.getUnhandledErrors();
    state.clearErrors();
    process.exitCode = 0;
    if (failed !== undefined) return this.#fileOf(failed);
    return errors.length > 0 ? `an error beside its tests: ${errors[0].message}` : undefined;
  }
}

function isOfCode(file) {
  return !NOT_OF_CODE.test(file);
}

function parts(records, isWide) {
  const left = [...records];
  const all = PART_MS.map((ms) => {
    const part = [];
    for (let sum = 0; left.length > 0 && sum < ms; sum += part.at(-1).ms) part.push(left.shift());
    return part;
  });
  return isWide ? [...all, left] : all;
}

/** The name of the function that a line is in; empty outside of all. */
function functionAt(text, at) {
  const lines = text.split("\n");
  const indentOf = (line) => line.search(/\S|$/);
  let indent = indentOf(lines[at]) + 1;
  for (let line = at; line >= 0; line--) {
    if (lines[line].trim() === "" || indentOf(lines[line]) >= indent) continue;
    const name = FUNCTION.exec(lines[line])?.slice(1).find(Boolean);
    if (name !== undefined && !WORDS.has(name)) return name;
    indent = Math.min(indent, indentOf(lines[line]) + 1);
  }
  return "";
}

function endChildren() {
  const children = execFileSync("ps", ["--no-headers", "-o", "pid,args", "--ppid", String(process.pid)], {
    encoding: "utf8",
  });
  for (const [, pid] of children.matchAll(/^\s*(\d+) .*vitest/gm)) process.kill(Number(pid), "SIGKILL");
}
