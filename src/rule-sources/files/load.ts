// Loads a rules directory: reads the files, parses them and has them compiled to a RuleSet.

import { ConfigError } from "../../base/errors.ts";
import { type LongWork, runInTurns, runThrough } from "../../base/long-work.ts";
import { type CompileOptions, compileSteps } from "../../engine/rules/compile.ts";
import { formatProblem, makeProblem } from "../../engine/rules/problems.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import { type Problem, placeOfFile, type SourceFile } from "../../engine/rules/source.ts";
import { parseHere, parseInThread } from "./parse-in-thread.ts";
import { type FileChoice, type RuleFiles, readRuleFiles } from "./read-files.ts";

/** Which files are loaded, and the options of the compiler; the hash is computed here. */
export interface LoadOptions extends FileChoice, Omit<CompileOptions, "hash"> {
  /** Put before the names of files wherever they are shown, such as `rules/`. Default: nothing. */
  readonly namePrefix?: string;
  /** False: the process takes no calls yet, so small files are parsed without a thread. Default: true. */
  readonly takesCalls?: boolean;
}

/** The result of loading a rules directory. */
export interface LoadResult {
  /** Undefined if any problem is an error. */
  readonly ruleSet: RuleSet | undefined;
  /** All problems, warnings included. */
  readonly problems: readonly Problem[];
  /** SHA-256 over the names and contents of all files, refused ones too, in hex. */
  readonly hash: string;
  readonly files: readonly string[];
}

/**
 * Loads all rules of a directory while calls are answered: parses in another thread and compiles a few milliseconds at
 * a time (test/fault/reload-turns.long.test.ts). Never rejects: a directory or file that can't be read is an error
 * among the problems.
 */
export async function loadRules(directory: string, options: LoadOptions): Promise<LoadResult> {
  const read = renamed(await readRuleFiles(directory, options), directory, options.namePrefix ?? "");
  return runInTurns(compileSources(directory, read, await parseInThread(read.files, options.takesCalls), options));
}

/** Parses and compiles files that were read before, all at once. */
export function compileFiles(directory: string, read: RuleFiles, options: LoadOptions): LoadResult {
  return runThrough(compileSources(directory, read, parseHere(read.files), options));
}

function renamed(read: RuleFiles, directory: string, prefix: string): RuleFiles {
  if (prefix === "") return read;
  const nameOf = (name: string) => (name === directory ? name : `${prefix}${name}`);
  return {
    ...read,
    files: read.files.map((file) => ({ ...file, name: nameOf(file.name) })),
    failures: read.failures.map((failure) => ({ ...failure, name: nameOf(failure.name) })),
  };
}

function* compileSources(
  directory: string,
  read: RuleFiles,
  sources: readonly SourceFile[],
  options: LoadOptions,
): LongWork<LoadResult> {
  const failures = read.failures.map(({ name, message }) => makeProblem("error", placeOfFile(name), message));
  const { ruleSet, problems } = yield* compileSteps(sources, { ...options, hash: read.hash });
  const files = read.files.map((file) => file.name);
  if (failures.length > 0) return { ruleSet: undefined, problems: [...failures, ...problems], hash: read.hash, files };
  if (files.length > 0 || ruleSet === undefined) return { ruleSet, problems, hash: read.hash, files };
  const message = "the rules directory has no rule files (*.yaml, *.yml, *.json), so nothing is limited";
  const warning = makeProblem("warning", placeOfFile(directory), message);
  return { ruleSet: { ...ruleSet, warnings: [warning] }, problems: [warning], hash: read.hash, files };
}

/** The error of a load without a rule set, with one line per problem of severity error. */
export function loadError(directory: string, result: LoadResult): ConfigError {
  const errors = result.problems.filter((problem) => problem.severity === "error");
  const isDirectory = errors.some((problem) => problem.file === directory);
  const count = errors.length === 1 ? "1 error" : `${errors.length} errors`;
  return new ConfigError(
    isDirectory ? "CONFIG_RULES_DIR" : "CONFIG_RULES",
    `the rules in ${directory} can't be used: ${count}`,
    errors.map(formatProblem),
  );
}
