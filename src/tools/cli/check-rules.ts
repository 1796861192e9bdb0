// `headgate check`: every problem of rule files, one line each, and a summary.

import { visible } from "../../engine/base/visible.ts";
import { isInResource } from "../../engine/rules/place.ts";
import { formatProblem } from "../../engine/rules/problems.ts";
import type { Level, Problem, RuleSet } from "../../engine/rules/rule-set.ts";
import type { LoadResult } from "../../rule-sources/files/load.ts";
import { calendarHints } from "./calendar-hints.ts";
import { Excerpts } from "./excerpts.ts";
import { githubAnnotation } from "./github-annotations.ts";
import { loadChosen, type RulesChoice } from "./rules-source.ts";
import { count, paint, type Terminal } from "./terminal.ts";

interface CheckOptions extends RulesChoice {
  /** Warnings count as errors. */
  readonly isStrict: boolean;
  readonly asJson: boolean;
  /** Problems as annotations of a pull request, in a workflow of GitHub Actions. */
  readonly asAnnotations: boolean;
}

/** Checks a directory or file. Exit code 0 if it can be used, else 1. */
export async function checkRules(options: CheckOptions, terminal: Terminal): Promise<void> {
  const result = await loadChosen(options, terminal.env);
  const errors = result.problems.filter((problem) => problem.severity === "error").length;
  const warnings = result.problems.length - errors;
  const isGood = errors === 0 && (warnings === 0 || !options.isStrict);
  terminal.setExitCode(isGood ? 0 : 1);
  const hints = [
    ...(result.ruleSet === undefined ? [] : calendarHints(result.ruleSet)),
    ...controlPlaneHints(result.ruleSet, terminal.env),
  ];
  if (options.asJson) {
    const summary = result.ruleSet === undefined ? null : summaryOf(result.ruleSet);
    terminal.out(
      `${JSON.stringify({ ok: isGood, files: result.files, summary, problems: result.problems, hints }, null, 2)}\n`,
    );
    return;
  }
  if (options.asAnnotations) {
    for (const { severity, message, suggestion, ...at } of result.problems) {
      const text = suggestion === undefined ? message : `${message}. ${suggestion}`;
      terminal.out(githubAnnotation(severity, at, "headgate check", text));
    }
  } else {
    const excerpts = new Excerpts(terminal, result.file);
    for (const problem of result.problems) {
      terminal.out(`${problemLine(problem, terminal)}\n${await excerpts.of(problem)}`);
    }
    for (const hint of hints) terminal.out(`${paint(terminal, "cyan", "hint")}: ${visible(hint)}\n`);
  }
  terminal.out(`${lastLine(result, { errors, warnings, isGood }, terminal)}\n`);
}

/** What the service adds to the files, and this command can't see. */
function controlPlaneHints(ruleSet: RuleSet | undefined, { CONFIG_TYPE: type }: Terminal["env"]): string[] {
  const rules = [...(ruleSet?.domains.values() ?? [])].flatMap(({ root }) => root.rules);
  if (type?.toLowerCase() !== "grpc_xds_sotw" || rules.some(({ at }) => isInResource(at))) return [];
  return [
    "CONFIG_TYPE is GRPC_XDS_SOTW: these files were checked without the control plane's rules, which they join. /config of the service shows what becomes of both",
  ];
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
    rules += countRules(domain.root);
    limits += domain.limits.length;
  }
  return { domains: ruleSet.domains.size, rules, limits };
}

function countRules(level: Level): number {
  return level.rules.reduce((sum, { children }) => sum + 1 + (children === undefined ? 0 : countRules(children)), 0);
}
