// Finds files of cases, loads the rules of each, runs the cases and prints the results.

import { readdir, readFile, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { ConfigError } from "../../base/errors.ts";
import { errorCode, fileTrouble } from "../../base/thrown.ts";
import { makeProblem } from "../../engine/rules/problems.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import type { Problem, SourceFile } from "../../engine/rules/source.ts";
import { parseFile } from "../../rule-sources/files/parse-file.ts";
import { readSettings, type Settings } from "../../settings/settings.ts";
import { SETTINGS } from "../../settings/table.ts";
import { Coverage } from "../simulate/cases/coverage.ts";
import { type CaseFile, hasCases, readCases } from "../simulate/cases/read-cases.ts";
import { runCase } from "../simulate/cases/run-case.ts";
import { compileNode, loadChosen, virtualSettings } from "./rules-source.ts";
import type { Terminal } from "./terminal.ts";
import { type FileResult, printResults, type TestFlags, type TestRun } from "./test-output.ts";

/** How often `--watch` looks at the files. */
const LOOK_MS = 300;

/**
 * Runs the files. Exit code 0; 1 if a case fails or required coverage is missing; 2 if rules or cases can't be used.
 */
export async function testFiles(
  paths: readonly string[],
  flags: TestFlags,
  terminal: Terminal,
  untilStopped: () => Promise<void> = () => new Promise(() => undefined),
): Promise<void> {
  if (flags.watch !== true) {
    const run = await runFiles(paths, flags);
    printResults(run, flags, terminal);
    terminal.setExitCode(exitCodeOf(run, flags));
    return;
  }
  const stopping = new AbortController();
  const { signal } = stopping;
  void untilStopped().then(() => stopping.abort());
  let watched: readonly string[] = [];
  while (!signal.aborted) {
    // Taken before the run, to notice a change during it. The rules' paths are known after the first run.
    const before = await stampOf([...paths, ...watched]);
    const run = await runFiles(paths, flags);
    if (String(run.watched) !== String(watched)) {
      watched = run.watched;
      continue;
    }
    printResults(run, flags, terminal);
    terminal.setExitCode(exitCodeOf(run, flags));
    terminal.err("waiting for a change; Ctrl-C ends this\n");
    while (!signal.aborted && (await stampOf([...paths, ...watched])) === before)
      await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
  }
}

function exitCodeOf({ files, coverage }: TestRun, { requireCoverage }: TestFlags): number {
  if (files.length === 0 || files.some(({ problems }) => problems.some(({ severity }) => severity === "error")))
    return 2;
  if (files.some(({ cases }) => cases.some(({ failures }) => failures.length > 0))) return 1;
  return requireCoverage === true && coverage.some(({ report }) => report.never_met.length > 0) ? 1 : 0;
}

async function runFiles(paths: readonly string[], flags: TestFlags): Promise<TestRun> {
  const rules = new RulesOfCases(flags.rules);
  const files: FileResult[] = [];
  const skipped: string[] = [];
  for (const path of paths) {
    const { names, problems } = await filesIn(path);
    if (problems.length > 0) files.push({ name: path, problems, cases: [] });
    for (const name of names) {
      const source = await parsed(name);
      // A file named on the command line should have cases.
      if (name !== path && !hasCases(source)) skipped.push(name);
      else files.push(await runFile(source, rules));
    }
  }
  const coverage = [...rules.loaded.values()].map(({ title, coverage }) => ({
    rules: title,
    report: coverage.report(),
  }));
  return { files, skipped, coverage, watched: rules.watched };
}

async function runFile(source: SourceFile, rules: RulesOfCases): Promise<FileResult> {
  const { name } = source;
  const { file, problems } = readCases(source);
  if (file === undefined) return { name, problems, cases: [] };
  const loaded = await rules.of(file);
  if (loaded.ruleSet === undefined) return { name, problems: [...problems, ...loaded.problems], cases: [] };
  const { ruleSet, settings, coverage } = loaded;
  const { responseHeaders: dialects, limitHeader, remainingHeader, resetHeader, compatibilityMode } = settings;
  const headers = { dialects, limitHeader, remainingHeader, resetHeader, explainsRefusals: !compatibilityMode };
  const options = { ruleSet, settings: virtualSettings(settings), headers, coverage };
  return { name, problems, cases: file.cases.map((one) => runCase(one, options)) };
}

async function parsed(name: string): Promise<SourceFile> {
  try {
    return parseFile({ name, bytes: await (name === "-" ? buffer(process.stdin) : readFile(name)) });
  } catch (cause) {
    if (errorCode(cause) === undefined) throw cause;
    return { name, root: undefined, problems: [problemAt(name, `can't read the file: ${fileTrouble(cause)}`)] };
  }
}

interface LoadedRules {
  readonly title: string;
  readonly ruleSet: RuleSet;
  readonly settings: Settings;
  readonly coverage: Coverage;
}

/** The rule sets that cases name, each loaded once. */
class RulesOfCases {
  /** Files and directories that results depend on. */
  readonly watched: string[] = [];
  readonly loaded = new Map<string, LoadedRules>();
  readonly #chosen: string | undefined;

  constructor(chosen: string | undefined) {
    this.#chosen = chosen;
  }

  async of(
    file: CaseFile,
  ): Promise<LoadedRules | { readonly ruleSet: undefined; readonly problems: readonly Problem[] }> {
    const { rules } = file;
    const refuse = (message: string, suggestion?: string) => {
      return { ruleSet: undefined, problems: [problemAt(file.name, message, suggestion)] };
    };
    let settings: Settings;
    try {
      settings = readSettings(file.settings);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      return refuse(`settings: ${error.message}`);
    }
    const known = Object.values(SETTINGS).map(({ name }) => name);
    const stranger = Object.keys(file.settings).find((name) => !known.includes(name));
    if (stranger !== undefined) {
      const warning = settings.warnings.find((line) => line.startsWith(`${stranger}:`));
      return refuse(`settings: ${warning ?? `${stranger}: there is no such setting`}`);
    }
    if (this.#chosen === undefined && rules === undefined)
      return refuse("expected 'rules': a path from this file, or the rules themselves", "Or give --rules.");
    const path = this.#chosen ?? (typeof rules === "string" ? join(dirname(file.name), rules) : undefined);
    const title = path ?? file.name;
    const key = JSON.stringify([path === undefined ? file.name : resolve(path), file.settings]);
    const loadedBefore = this.loaded.get(key);
    if (loadedBefore !== undefined) return loadedBefore;
    if (path !== undefined) this.watched.push(path);
    const { ruleSet, problems } =
      path === undefined && typeof rules === "object"
        ? compileNode(file.name, rules, settings)
        : await loadChosen({ path, mergeDomains: undefined }, {}, settings);
    if (ruleSet === undefined) return { ruleSet, problems };
    const loaded = { title, ruleSet, settings, coverage: new Coverage(ruleSet) };
    this.loaded.set(key, loaded);
    return loaded;
  }
}

function problemAt(file: string, message: string, suggestion?: string): Problem {
  return makeProblem("error", { file, line: 1, column: 1 }, message, suggestion);
}

/** The path itself, or the YAML files below a folder, sorted. A folder that can't be read is a problem. */
async function filesIn(
  path: string,
): Promise<{ readonly names: readonly string[]; readonly problems: readonly Problem[] }> {
  const isFolder = await stat(path).then(
    (one) => one.isDirectory(),
    () => false,
  );
  if (!isFolder) return { names: [path], problems: [] };
  try {
    const names = await readdir(path, { recursive: true });
    const cases = names.filter((name) => /\.ya?ml$/.test(name)).sort();
    return { names: cases.map((name) => join(path, name)), problems: [] };
  } catch (cause) {
    if (errorCode(cause) === undefined) throw cause;
    // May be a folder below it.
    const { path: folder = path } = cause as NodeJS.ErrnoException;
    return { names: [], problems: [problemAt(folder, `can't read the folder: ${fileTrouble(cause)}`)] };
  }
}

/** A text that changes whenever a file of these paths changes. */
async function stampOf(paths: readonly string[]): Promise<string> {
  const stamps: string[] = [];
  for (const path of paths) {
    const one = await stat(path).catch(() => undefined);
    stamps.push(`${path} ${one?.mtimeMs} ${one?.size}`);
    if (one?.isDirectory() !== true) continue;
    const names = await readdir(path).catch(() => []);
    stamps.push(await stampOf(names.map((name) => join(path, name))));
  }
  return stamps.join("\n");
}
