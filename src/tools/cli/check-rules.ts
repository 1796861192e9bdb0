// `headgate check`: every problem of rule files, one line each, and a summary.

import { visible } from "../../base/visible.ts";
import { formatProblem } from "../../engine/rules/problems.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import type { Problem } from "../../engine/rules/source.ts";
import { allRules } from "../../engine/rules/tiers.ts";
import type { LoadResult } from "../../rule-sources/files/load.ts";
import { excerpts } from "./excerpts.ts";
import { problemAnnotation } from "./github-annotations.ts";
import { ruleHints } from "./rule-hints.ts";
import { decidingSettings, loadChosen, type RulesChoice } from "./rules-source.ts";
import { count, jsonText, paint, type Terminal } from "./terminal.ts";

/** Flags of `check`. */
export interface CheckFlags {
  readonly mergeDomains?: true;
  /** Warnings count as errors. */
  readonly strict?: true;
  /** `github`: problems as annotations of a pull request, in a workflow of GitHub Actions. */
  readonly format: "text" | "json" | "github";
  readonly json?: true;
}

/** Checks a directory or file. Exit code 0 if the service would accept it, else 1. */
export async function checkRules(
  choice: RulesChoice,
  flags: Pick<CheckFlags, "strict" | "format" | "json">,
  terminal: Terminal,
): Promise<void> {
  const settings = decidingSettings(terminal.env);
  const result = await loadChosen(choice, terminal.env, settings);
  const errors = result.problems.filter((problem) => problem.severity === "error").length;
  const warnings = result.problems.length - errors;
  const isGood = errors === 0 && (warnings === 0 || flags.strict !== true);
  terminal.setExitCode(isGood ? 0 : 1);
  const { ruleSet } = result;
  const hints = ruleSet === undefined ? [] : ruleHints(ruleSet, settings);
  if (flags.json === true || flags.format === "json") {
    const summary = ruleSet === undefined ? null : summaryOf(ruleSet);
    terminal.out(jsonText({ ok: isGood, files: result.files, summary, problems: result.problems, hints }));
    return;
  }
  if (flags.format === "github") {
    for (const problem of result.problems) terminal.out(problemAnnotation(problem, "headgate check"));
  } else {
    const excerptOf = excerpts(terminal, result.file);
    for (const problem of result.problems) {
      terminal.out(`${problemLine(problem, terminal)}\n${await excerptOf(problem)}`);
    }
    for (const hint of hints) terminal.out(`${paint(terminal, "cyan", "hint")}: ${visible(hint)}\n`);
  }
  terminal.out(`${lastLine(result, { errors, warnings, isGood }, terminal)}\n`);
}

function problemLine(problem: Problem, terminal: Terminal): string {
  const line = visible(formatProblem(problem));
  const colour = problem.severity === "error" ? "red" : "yellow";
  return line.replace(`: ${problem.severity}: `, `: ${paint(terminal, colour, problem.severity)}: `);
}

function lastLine(
  { ruleSet, files }: LoadResult,
  found: { readonly errors: number; readonly warnings: number; readonly isGood: boolean },
  terminal: Terminal,
): string {
  const troubles = [
    ...(found.errors > 0 ? [count(found.errors, "error")] : []),
    ...(found.warnings > 0 ? [count(found.warnings, "warning")] : []),
  ].join(", ");
  const where = `in ${count(files.length, "file")}`;
  if (ruleSet === undefined) return paint(terminal, "red", `${troubles} ${where}`);
  const { domains, rules, limits } = summaryOf(ruleSet);
  const holds = `${count(domains, "domain")}, ${count(rules, "rule")}, ${count(limits, "limit")} ${where}`;
  const verdict = found.isGood ? "ok" : "refused";
  return paint(
    terminal,
    found.isGood ? "green" : "red",
    `${verdict}: ${holds}${troubles === "" ? "" : `; ${troubles}`}`,
  );
}

function summaryOf(ruleSet: RuleSet): { readonly domains: number; readonly rules: number; readonly limits: number } {
  let rules = 0;
  let limits = 0;
  for (const domain of ruleSet.domains.values()) {
    for (const _ of allRules(domain.root)) rules++;
    limits += domain.limits.length;
  }
  return { domains: ruleSet.domains.size, rules, limits };
}
