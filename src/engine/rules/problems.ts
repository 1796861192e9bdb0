// Gathers all problems of rule files and words them for people.

import { type Place, type Problem, placeOfFile, type SourceFile, type SourceNode } from "./source.ts";

/** Most problems of one load; a broken file may have one per line. */
export const PROBLEMS_MAX = 500;

/** Collects problems while files are compiled. */
export class ProblemLog {
  readonly #problems: Problem[] = [];
  #errors = 0;

  /** True if there was an error so far. */
  get hasErrors(): boolean {
    return this.#errors > 0;
  }

  /** True once further errors are not kept, so that looking for them is useless. */
  get isFull(): boolean {
    return this.#errors >= PROBLEMS_MAX;
  }

  /** Number of errors so far. */
  get errorCount(): number {
    return this.#errors;
  }

  /** Reports an error. Returns undefined, the value of what can't be read. */
  error(at: Place, message: string, suggestion?: string): undefined {
    this.#errors++;
    if (this.keeps("error")) this.#problems.push(makeProblem("error", at, message, suggestion));
  }

  warn(at: Place, message: string, suggestion?: string): undefined {
    if (this.keeps("warning")) this.#problems.push(makeProblem("warning", at, message, suggestion));
  }

  /** Reports a value: `message` and what it is instead. */
  wrong(node: SourceNode, message: string, suggestion?: string): undefined {
    this.error(node.at, `${message}, got ${describeSource(node)}`, suggestion);
  }

  /** Adds problems that the parser found. */
  addAll(problems: readonly Problem[]): void {
    for (const problem of problems) {
      if (problem.severity === "error") this.#errors++;
      if (this.keeps(problem.severity)) this.#problems.push(problem);
    }
  }

  /**
   * All problems by file, line and column, equal ones once. If there are more than PROBLEMS_MAX, warnings are left out
   * first.
   */
  sorted(): Problem[] {
    const sorted = dropRepeats(this.#problems.toSorted(compareProblems));
    if (sorted.length <= PROBLEMS_MAX) return sorted;
    const errors = sorted.filter((problem) => problem.severity === "error");
    const warnings = sorted.filter((problem) => problem.severity === "warning");
    return [...errors, ...warnings].slice(0, PROBLEMS_MAX).toSorted(compareProblems);
  }

  /**
   * Twice the bound leaves enough to choose from and keeps hostile files from filling memory. Warnings never displace
   * errors.
   */
  private keeps(severity: Problem["severity"]): boolean {
    return this.#problems.length < PROBLEMS_MAX * 2 || (severity === "error" && this.#errors <= PROBLEMS_MAX);
  }
}

/** Makes a problem; `suggestion` is a sentence such as "Did you mean 'unit'?". */
export function makeProblem(
  severity: Problem["severity"],
  at: Place,
  message: string,
  suggestion?: string | undefined,
): Problem {
  const { file, line, column, path } = at;
  const place = path === undefined ? { file, line, column } : { file, line, column, path };
  const hint = suggestion === undefined ? {} : { suggestion: shorten(suggestion) };
  return { severity, ...place, message: shorten(message), ...hint };
}

/** A file or resource that could not be read, with the reason as its only problem. */
export function refusedFile(name: string, isResource: boolean, why: string): SourceFile {
  return { name, isResource, root: undefined, problems: [makeProblem("error", placeOfFile(name, isResource), why)] };
}

/** Most characters of a text: names of 64 KiB may be in it, and PROBLEMS_MAX problems are kept and shown. */
const TEXT_CHARS_MAX = 1_000;

/** Leaves out the middle of a text that is too long. */
function shorten(text: string): string {
  return text.length <= TEXT_CHARS_MAX ? text : `${text.slice(0, 600)} ... ${text.slice(-300)}`;
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

/** The node in words, for messages of the form "expected ..., got ...". */
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

// An anchor that is used several times would repeat its problems.
function dropRepeats(sorted: readonly Problem[]): Problem[] {
  const seen = new Set<string>();
  return sorted.filter((problem) => {
    const text = formatProblem(problem);
    if (seen.has(text)) return false;
    seen.add(text);
    return true;
  });
}
