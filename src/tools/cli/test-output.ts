// Prints results of cases: for people, as JUnit's XML, as annotations of GitHub, as JSON.

import { visible } from "../../base/visible.ts";
import { formatProblem } from "../../engine/rules/problems.ts";
import type { Problem } from "../../engine/rules/source.ts";
import type { CoverageReport } from "../simulate/cases/coverage.ts";
import { type CaseResult, formatFailure } from "../simulate/cases/run-case.ts";
import { githubAnnotation, problemAnnotation } from "./github-annotations.ts";
import { count, jsonText, paint, type Terminal } from "./terminal.ts";

/** Flags of `test`. */
export interface TestFlags {
  readonly rules?: string;
  readonly format: "text" | "junit" | "github" | "json";
  readonly requireCoverage?: true;
  readonly watch?: true;
}

/** One file of cases. */
export interface FileResult {
  readonly name: string;
  /** Problems of the file and of its rules. With an error among them no case was run. */
  readonly problems: readonly Problem[];
  readonly cases: readonly CaseResult[];
}

/** All files. */
export interface TestRun {
  readonly files: readonly FileResult[];
  /** Files of folders that have no `cases`, such as rule files. */
  readonly skipped: readonly string[];
  /** The coverage of each rule set that was tested. */
  readonly coverage: readonly { readonly rules: string; readonly report: CoverageReport }[];
  /** Paths of rules, for `--watch`. */
  readonly watched: readonly string[];
}

const WRITERS: Readonly<Record<TestFlags["format"], (run: TestRun, terminal: Terminal) => string>> = {
  text: textOf,
  junit: junitOf,
  github: (run) => `${annotationsOf(run)}${summaryOf(run)}\n`,
  json: ({ files, coverage }) => jsonText({ files, coverage }),
};

/** Prints the run. */
export function printResults(run: TestRun, { format }: TestFlags, terminal: Terminal): void {
  terminal.out(WRITERS[format](run, terminal));
  if (run.skipped.length === 0) return;
  const title = `skipped ${count(run.skipped.length, "file")} without 'cases'`;
  terminal.err(`${visible(`${title}: ${run.skipped.join(", ")}`)}\n`);
}

function textOf(run: TestRun, terminal: Terminal): string {
  const lines: string[] = [];
  for (const { name, problems, cases } of run.files) {
    lines.push(paint(terminal, "bold", visible(name)));
    for (const problem of problems) lines.push(`  ${visible(formatProblem(problem))}`);
    for (const one of cases) {
      const passed = isPassed(one);
      const mark = passed ? paint(terminal, "green", "ok     ") : paint(terminal, "red", "FAILED ");
      lines.push(`  ${mark}${visible(one.name)}`);
      for (const failure of one.failures) lines.push(`         ${visible(formatFailure(failure))}`);
    }
    lines.push("");
  }
  for (const { rules, report } of run.coverage) {
    const { met, all, refusing, limits, never_met: unmet, never_refusing: quiet } = report;
    lines.push(
      visible(`${rules}: ${met} of ${count(all, "rule")} met, ${refusing} of ${count(limits, "limit")} refused a call`),
    );
    if (unmet.length > 0) lines.push(...wrapped("never met", unmet));
    const metOnly = quiet.filter((name) => !unmet.includes(name));
    if (metOnly.length > 0) lines.push(...wrapped("never refused", metOnly));
  }
  const failed = run.files.some(hasFailed) || run.files.length === 0;
  lines.push(paint(terminal, failed ? "red" : "green", summaryOf(run)));
  return `${lines.join("\n")}\n`;
}

function wrapped(title: string, names: readonly string[]): string[] {
  return [`  ${title}:`, ...names.map((name) => `    ${visible(name)}`)];
}

function summaryOf({ files }: TestRun): string {
  if (files.length === 0) return "no files of cases were found";
  const cases = files.flatMap((file) => file.cases);
  const failed = cases.filter((one) => !isPassed(one)).length;
  const unusable = files.filter((file) => file.problems.some(({ severity }) => severity === "error")).length;
  const calls = cases.reduce((sum, one) => sum + one.calls, 0);
  const parts = [`${cases.length - failed} of ${count(cases.length, "case")} passed`, count(calls, "call")];
  if (unusable > 0) parts.push(`${count(unusable, "file")} can't be used`);
  return parts.join(", ");
}

/** XML as JUnit's runners write it: a suite per file, a failure per case, an error per file that can't be used. */
function junitOf({ files }: TestRun): string {
  const suites = files.map((file) => suiteOf(file));
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n${suites.join("")}</testsuites>\n`;
}

function suiteOf({ name, problems, cases }: FileResult): string {
  const failed = cases.filter((one) => !isPassed(one)).length;
  const lacking = cases.length === 0;
  const head = `name="${xml(name)}" tests="${Math.max(1, cases.length)}" failures="${failed}" errors="${lacking ? 1 : 0}"`;
  const bodies = cases.map((one) => {
    const open = `    <testcase classname="${xml(name)}" name="${xml(one.name)}"`;
    if (isPassed(one)) return `${open}/>\n`;
    const messages = one.failures.map(formatFailure);
    const text = `<failure message="${xml(messages[0] ?? "")}">${xml(messages.join("\n"))}</failure>`;
    return `${open}>\n      ${text}\n    </testcase>\n`;
  });
  if (lacking) {
    const messages = problems.map(formatProblem);
    const text = `<error message="${xml(messages[0] ?? "no cases")}">${xml(messages.join("\n"))}</error>`;
    bodies.push(`    <testcase classname="${xml(name)}" name="${xml(name)}">\n      ${text}\n    </testcase>\n`);
  }
  return `  <testsuite ${head}>\n${bodies.join("")}  </testsuite>\n`;
}

const XML_ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "\n": "&#10;",
};

function xml(text: string): string {
  const lines = text.split("\n").map(visible).join("\n");
  return lines.replace(/[&<>"\n]/g, (char) => XML_ESCAPES[char] ?? char);
}

function annotationsOf({ files }: TestRun): string {
  let text = "";
  for (const { problems, cases } of files) {
    for (const problem of problems) text += problemAnnotation(problem, "headgate test");
    for (const one of cases) {
      for (const { at, message } of one.failures) text += githubAnnotation("error", at, one.name, message);
    }
  }
  return text;
}

function hasFailed({ problems, cases }: FileResult): boolean {
  return problems.some(({ severity }) => severity === "error") || cases.some((one) => !isPassed(one));
}

function isPassed({ failures }: CaseResult): boolean {
  return failures.length === 0;
}
