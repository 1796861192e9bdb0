// A rules directory to a RuleSet: reads the files, parses them, has them compiled. The only way from disk to rules.

import { isUtf8 } from "node:buffer";
import { setImmediate } from "node:timers/promises";
import { ConfigError } from "../core/errors.ts";
import { type CompileOptions, compileRules } from "../rules/compile.ts";
import { formatProblem, makeProblem } from "../rules/problems.ts";
import type { Problem, RuleSet } from "../rules/rule-set.ts";
import type { SourceFile } from "../rules/source.ts";
import { parseYaml } from "./parse-yaml.ts";
import { type FileChoice, type ReadFile, type RuleFiles, readRuleFiles } from "./read-files.ts";

/** How rules are loaded: which files, and what they are compiled with (the hash is made here). */
export type LoadOptions = FileChoice & Omit<CompileOptions, "hash">;

/** What became of a rules directory. */
export interface LoadResult {
  /** Undefined if any problem is an error. */
  readonly ruleSet: RuleSet | undefined;
  /** All problems, warnings included. */
  readonly problems: readonly Problem[];
  /** SHA-256 over names and contents, hex; also of files that were refused. */
  readonly hash: string;
  readonly files: readonly string[];
}

/** Loads all rules of a directory. Never rejects: a directory or file that can't be read is an error among the problems. */
export async function loadRules(directory: string, options: LoadOptions): Promise<LoadResult> {
  const read = await readRuleFiles(directory, options);
  const sources: SourceFile[] = [];
  for (const file of read.files) {
    sources.push(parseFile(file));
    // Parsing takes about a millisecond per dozen rules; calls get their turn between two files.
    await setImmediate();
  }
  return compileSources(directory, read, sources, options);
}

/** Compiles files that were read already. */
export function compileFiles(directory: string, read: RuleFiles, options: LoadOptions): LoadResult {
  return compileSources(directory, read, read.files.map(parseFile), options);
}

function compileSources(
  directory: string,
  read: RuleFiles,
  sources: readonly SourceFile[],
  options: LoadOptions,
): LoadResult {
  const failures = read.failures.map(({ name, message }) =>
    makeProblem("error", { file: name, line: 1, column: 1 }, message, undefined),
  );
  const { ruleSet, problems } = compileRules(sources, { ...options, hash: read.hash });
  const files = read.files.map((file) => file.name);
  if (failures.length > 0) return { ruleSet: undefined, problems: [...failures, ...problems], hash: read.hash, files };
  if (files.length > 0 || ruleSet === undefined) return { ruleSet, problems, hash: read.hash, files };
  const message = "the rules directory holds no rule files (*.yaml, *.yml, *.json), so nothing is limited";
  const warning = makeProblem("warning", { file: directory, line: 1, column: 1 }, message, undefined);
  return { ruleSet: { ...ruleSet, warnings: [warning] }, problems: [warning], hash: read.hash, files };
}

/** The error of a load that gave no rule set, with one line per problem that refused it. */
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

/** Parses one file's bytes; what is wrong with it is in the result's problems. */
export function parseFile({ name, bytes }: ReadFile): SourceFile {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return parseYaml(name, decodeUtf16(bytes, "utf-16le"));
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return parseYaml(name, decodeUtf16(bytes, "utf-16be"));
  if (!isUtf8(bytes)) {
    const problem = makeProblem(
      "error",
      placeOfBadByte(name, bytes),
      "the file is not UTF-8 text",
      "Save it as UTF-8.",
    );
    return { name, root: undefined, problems: [problem] };
  }
  const text = bytes.toString("utf8");
  return parseYaml(name, text.startsWith("\ufeff") ? text.slice(1) : text);
}

function decodeUtf16(bytes: Buffer, encoding: string): string {
  return new TextDecoder(encoding).decode(bytes);
}

function placeOfBadByte(file: string, bytes: Buffer): { file: string; line: number; column: number } {
  let line = 1;
  let start = 0;
  for (;;) {
    const end = bytes.indexOf(0x0a, start);
    const part = bytes.subarray(start, end < 0 ? bytes.length : end);
    if (end < 0 || !isUtf8(part)) {
      // The decoder puts U+FFFD where the first bad byte is, or where the text holds one itself: near enough.
      return { file, line, column: Math.max(0, part.toString("utf8").indexOf("\ufffd")) + 1 };
    }
    start = end + 1;
    line++;
  }
}
