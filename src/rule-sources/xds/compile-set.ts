// Compiles a control plane's resources together with the rule files. Only mistakes in resources refuse the set; a file
// with mistakes is left out.

import { runInTurns } from "../../base/long-work.ts";
import { type CompileOptions, type CompileResult, compileSteps } from "../../engine/rules/compile.ts";
import { formatProblem } from "../../engine/rules/problems.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import { type Problem, placeOfFile, type SourceFile } from "../../engine/rules/source.ts";

/** The result of compiling a set. */
export interface SetResult extends CompileResult {
  /** Domains to which resources contribute, one-byte. */
  readonly domains: readonly string[];
  /** The errors for which files were left out: their own mistakes, or conflicts with the resources. */
  readonly faults: readonly Problem[];
}

/**
 * Compiles while calls are answered. Resources come first, sorted by name, because a control plane sends them in any
 * order. If the result has no rule set, all its errors are in resources.
 */
export async function compileSet(
  resources: readonly SourceFile[],
  files: readonly SourceFile[],
  options: CompileOptions,
): Promise<SetResult> {
  const sorted = resources.toSorted(compareNames);
  const problems: Problem[] = [];
  const faults: Problem[] = [];
  let used = files;
  for (;;) {
    const result = await runInTurns(compileSteps([...sorted, ...used], options));
    const { ruleSet } = result;
    // The resources have errors of their own.
    if (ruleSet === undefined && used.length === 0) return { ...result, domains: [], faults };
    if (ruleSet !== undefined) {
      const all = [...result.problems, ...problems];
      const domains = domainsWithout(used, ruleSet);
      return { ruleSet: { ...ruleSet, warnings: all }, problems: all, domains, faults };
    }
    const errors = result.problems.filter(({ severity }) => severity === "error");
    const faulty = used.filter(({ name }) => errors.some(({ file }) => file === name));
    // If no file has an error, a file may still have caused errors in resources: compiling without the files shows
    // that.
    const goes = faulty.length > 0 ? faulty : used;
    for (const { name } of goes) {
      const own = errors.filter(({ file }) => file === name);
      const why = own.length > 0 ? own : errors;
      faults.push(...why);
      problems.push(leftOutWarning(name, why));
    }
    used = used.filter((file) => !goes.includes(file));
  }
}

/** The domains that have rules from others than these files. */
function domainsWithout(files: readonly SourceFile[], { domains }: RuleSet): string[] {
  const names = new Set(files.map(({ name }) => name));
  const others = [...domains.values()].filter((rules) => rules.files.some((name) => !names.has(name)));
  return others.map(({ domain }) => domain);
}

function compareNames({ name: a }: SourceFile, { name: b }: SourceFile): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function leftOutWarning(file: string, errors: readonly Problem[]): Problem {
  const [first] = errors;
  const why = first === undefined ? "" : `: ${formatProblem(first)}`;
  const message = `the file is ignored: it can't be combined with the control plane's rules${why}`;
  return { severity: "warning", ...placeOfFile(file), message };
}
