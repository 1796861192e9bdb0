// `headgate explain`: which rule a descriptor meets and why, from rule files or from a running server.

import { type ExplainReport, explainRequest } from "../rules/explain.ts";
import { formatProblem } from "../rules/problems.ts";
import type { TypedEntry } from "./arguments.ts";
import { explainText } from "./explain-text.ts";
import { loadChosen, type RulesChoice } from "./rules-source.ts";
import { paint, type Terminal, visible } from "./terminal.ts";

/** The rules are not looked at if `server` is given. */
export interface ExplainOptions extends RulesChoice {
  readonly domain: string;
  readonly entries: readonly TypedEntry[];
  /** `http://host:port` or `host:port` of a running server's HTTP port. */
  readonly server: string | undefined;
  readonly asJson: boolean;
}

const SERVER_TIMEOUT_MS = 5_000;

/** Explains one descriptor. Exit code 0 if the rules could be had, else 2. */
export async function explainRules(options: ExplainOptions, terminal: Terminal): Promise<void> {
  const report =
    options.server === undefined ? await fromFiles(options, terminal) : await fromServer(options, terminal);
  if (report === undefined) {
    terminal.setExitCode(2);
    return;
  }
  terminal.out(options.asJson ? `${JSON.stringify(report, null, 2)}\n` : explainText(report, terminal));
}

async function fromFiles(options: ExplainOptions, terminal: Terminal): Promise<ExplainReport | undefined> {
  const { ruleSet, problems } = await loadChosen(options, terminal.env);
  if (ruleSet !== undefined) return explainRequest(ruleSet, options.domain, [options.entries]);
  for (const problem of problems) terminal.err(`${visible(formatProblem(problem))}\n`);
  terminal.err(`${paint(terminal, "red", "the rules can't be used")}\n`);
  return undefined;
}

async function fromServer(options: ExplainOptions, terminal: Terminal): Promise<ExplainReport | undefined> {
  const server = options.server ?? "";
  const url = `${/^https?:\/\//.test(server) ? server.replace(/\/+$/, "") : `http://${server}`}/explain`;
  try {
    const response = await fetch(url, {
      method: "POST",
      body: JSON.stringify({ domain: options.domain, descriptors: [{ entries: options.entries }] }),
      signal: AbortSignal.timeout(SERVER_TIMEOUT_MS),
    });
    const body = await response.text();
    if (response.ok) {
      const report: unknown = JSON.parse(body);
      if (isReport(report)) return report;
    }
    terminal.err(`${visible(url)} answered ${response.status}: ${visible(body.trim().slice(0, 500))}\n`);
  } catch (cause) {
    const why = cause instanceof Error && cause.cause instanceof Error ? cause.cause.message : String(cause);
    terminal.err(`can't ask ${visible(url)}: ${visible(why)}\n`);
  }
  return undefined;
}

// Enough to tell a report from what something else on that port says.
function isReport(value: unknown): value is ExplainReport {
  return typeof value === "object" && value !== null && "descriptors" in value && Array.isArray(value.descriptors);
}
