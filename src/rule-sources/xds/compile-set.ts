// Compiles the resources of a control plane together with the rule files beside them. Only mistakes in resources refuse the set; a file
// with mistakes is left out.

import type { LongWork } from "../../engine/base/long-work.ts";
import { type CompileOptions, type CompileResult, compileSteps } from "../../engine/rules/compile.ts";
import { formatProblem } from "../../engine/rules/problems.ts";
import type { Problem, RuleSet } from "../../engine/rules/rule-set.ts";
import type { SourceFile } from "../../engine/rules/source.ts";
import { runInTurns } from "../files/run-in-turns.ts";

/** Files that are merged in one step. */
const MERGED_PER_STEP = 1_024;

/** The result of compiling a set. */
export interface SetResult extends CompileResult {
  /** Domains to which resources contribute, one-byte. */
  readonly domains: readonly string[];
  /** Names of files that were left out, because of their own mistakes or of conflicts with the resources. */
  readonly leftOut: readonly string[];
  /** The errors for which files were left out. */
  readonly faults: readonly Problem[];
}

/**
 * Compiles while calls are answered. Resources come first, sorted by name, because a control plane sends them in any order. If the
 * result has no rule set, all its errors are in resources.
 */
export async function compileSet(
  resources: readonly SourceFile[],
  files: readonly SourceFile[],
  options: CompileOptions,
): Promise<SetResult> {
  const sorted = await runInTurns(sortedByName(resources));
  const problems: Problem[] = [];
  const leftOut: string[] = [];
  const faults: Problem[] = [];
  let beside = files;
  for (;;) {
    const result = await runInTurns(compileSteps([...sorted, ...beside], options));
    const { ruleSet } = result;
    // The resources have errors of their own.
    if (ruleSet === undefined && beside.length === 0) return { ...result, domains: [], leftOut, faults };
    if (ruleSet !== undefined) {
      const all = [...result.problems, ...problems];
      const domains = await runInTurns(domainsWithout(beside, ruleSet));
      return { ruleSet: { ...ruleSet, warnings: all }, problems: all, domains, leftOut, faults };
    }
    const errors = result.problems.filter(({ severity }) => severity === "error");
    const faulty = beside.filter(({ name }) => errors.some(({ file }) => file === name));
    // If no file has an error, a file may still have caused errors in resources: compiling without the files shows that.
    const goes = faulty.length > 0 ? faulty : beside;
    for (const { name } of goes) {
      const own = errors.filter(({ file }) => file === name);
      const why = own.length > 0 ? own : errors;
      leftOut.push(name);
      faults.push(...why);
      problems.push(leftOutWarning(name, why));
    }
    beside = beside.filter((file) => !goes.includes(file));
  }
}

/** The domains that have rules from others than these files. */
function* domainsWithout(files: readonly SourceFile[], { domains }: RuleSet): LongWork<string[]> {
  const names = new Set(files.map(({ name }) => name));
  const found: string[] = [];
  for (const { domain, files: all } of domains.values()) {
    if (all.some((name) => !names.has(name))) found.push(domain);
    yield;
  }
  return found;
}

/** A merge sort: to sort tens of thousands of names at once would delay calls. */
function* sortedByName(files: readonly SourceFile[]): LongWork<readonly SourceFile[]> {
  let runs: (readonly SourceFile[])[] = files.map((file) => [file]);
  while (runs.length > 1) {
    const longer: (readonly SourceFile[])[] = [];
    for (let i = 0; i < runs.length; i += 2) longer.push(yield* merged(runs[i] ?? [], runs[i + 1] ?? []));
    runs = longer;
  }
  return runs[0] ?? [];
}

function* merged(left: readonly SourceFile[], right: readonly SourceFile[]): LongWork<readonly SourceFile[]> {
  const all: SourceFile[] = [];
  let i = 0;
  for (const file of left) {
    for (let next = right[i]; next !== undefined && next.name < file.name; next = right[++i]) all.push(next);
    all.push(file);
    if (all.length % MERGED_PER_STEP === 0) yield;
  }
  yield;
  return [...all, ...right.slice(i)];
}

function leftOutWarning(file: string, errors: readonly Problem[]): Problem {
  const [first] = errors;
  const why = first === undefined ? "" : `: ${formatProblem(first)}`;
  const message = `the file is left out, for the rules of the control plane can't be used with it${why}`;
  return { severity: "warning", file, line: 1, column: 1, message };
}
