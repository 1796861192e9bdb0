// Gathers what is wrong with rule files, all of it, and words it for people.

import type { Problem } from "./rule-set.ts";
import type { Place, SourceNode } from "./source.ts";

/** Most problems kept of one load; a file of rubbish has one per line. */
export const PROBLEMS_MAX = 500;

/** Collects problems while files are compiled. */
export class ProblemLog {
  readonly #problems: Problem[] = [];
  #errors = 0;

  /** True if anything so far refuses the set. */
  get hasErrors(): boolean {
    return this.#errors > 0;
  }

  /** Errors so far. */
  get errorCount(): number {
    return this.#errors;
  }

  error(at: Place, message: string, suggestion?: string): void {
    this.#errors++;
    this.add(makeProblem("error", at, message, suggestion));
  }

  warn(at: Place, message: string, suggestion?: string): void {
    this.add(makeProblem("warning", at, message, suggestion));
  }

  /** Adds problems found elsewhere, by the parser. */
  addAll(problems: readonly Problem[]): void {
    for (const problem of problems) {
      if (problem.severity === "error") this.#errors++;
      this.add(problem);
    }
  }

  /** Everything said, in the order of files, lines and columns; equal ones once; errors before warnings if there are too many. */
  sorted(): Problem[] {
    const sorted = dropRepeats(this.#problems.toSorted(compareProblems));
    if (sorted.length <= PROBLEMS_MAX) return sorted;
    const errors = sorted.filter((problem) => problem.severity === "error");
    const warnings = sorted.filter((problem) => problem.severity === "warning");
    return [...errors, ...warnings].slice(0, PROBLEMS_MAX).toSorted(compareProblems);
  }

  private add(problem: Problem): void {
    // Twice the bound: enough to choose from, and a hostile file can't fill memory. Errors are never dropped for warnings.
    if (this.#problems.length < PROBLEMS_MAX * 2 || (problem.severity === "error" && this.#errors <= PROBLEMS_MAX)) {
      this.#problems.push(problem);
    }
  }
}

/** Makes a problem; `suggestion` is a sentence such as "Did you mean 'unit'?". */
export function makeProblem(
  severity: Problem["severity"],
  at: Place,
  message: string,
  suggestion: string | undefined,
): Problem {
  const { file, line, column, path } = at;
  const place = path === undefined ? { file, line, column } : { file, line, column, path };
  return { severity, ...place, message, ...(suggestion === undefined ? {} : { suggestion }) };
}

/** One line for a person: `file:line:column: error: message. Suggestion` */
export function formatProblem(problem: Problem): string {
  const { severity, message, suggestion } = problem;
  return `${formatPlace(problem)}: ${severity}: ${message}${suggestion === undefined ? "" : `. ${suggestion}`}`;
}

/** `file:line:column`; of a resource `resource name: path`. */
export function formatPlace({ file, line, column, path }: Place): string {
  if (path === undefined) return `${file}:${line}:${column}`;
  return path === "" ? file : `${file}: ${path}`;
}

/** What came, for messages of the form "expected ..., got ...". */
export function describeSource(node: SourceNode): string {
  if (node.kind === "sequence") return "a list";
  if (node.kind === "mapping") return "a mapping";
  if (node.value.type === "null") return "nothing";
  const text = JSON.stringify(node.text.length > 60 ? `${node.text.slice(0, 57)}...` : node.text);
  return node.isQuoted ? `the quoted text ${text}` : text.replace(/^"(.*)"$/s, "'$1'");
}

function compareProblems(a: Problem, b: Problem): number {
  if (a.file !== b.file) return a.file < b.file ? -1 : 1;
  return a.line - b.line || a.column - b.column;
}

// An anchor that is used ten times has each of its mistakes once.
function dropRepeats(sorted: readonly Problem[]): Problem[] {
  const seen = new Set<string>();
  return sorted.filter((problem) => {
    const text = formatProblem(problem);
    if (seen.has(text)) return false;
    seen.add(text);
    return true;
  });
}
