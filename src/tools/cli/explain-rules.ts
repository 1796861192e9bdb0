// `headgate explain`: which rule a descriptor meets and why, from rule files or from a running server.

import { explainRequest } from "../../engine/rules/explain.ts";
import type { ExplainReport } from "../../engine/rules/explain-report.ts";
import { askAdmin, askedDescriptor } from "./admin-call.ts";
import { type TypedDescriptor, unmetText } from "./arguments.ts";
import { explainText } from "./explain-text.ts";
import { orTrouble } from "./or-trouble.ts";
import { type RulesChoice, rulesOrTrouble } from "./rules-source.ts";
import type { Terminal } from "./terminal.ts";

/** Not read if `server` is given. */
interface ExplainOptions extends RulesChoice {
  readonly domain: string;
  readonly descriptors: readonly TypedDescriptor[];
  /** `http://host:port` or `host:port` of a running server's HTTP port. */
  readonly server: string | undefined;
  /** A file with a token for that server. */
  readonly tokenFile: string | undefined;
  readonly requiresMatch: boolean;
  readonly asJson: boolean;
}

/** Explains descriptors. Exit code 2 if rules or settings can't be used, 1 if a match is required and no rule applies, else 0. */
export async function explainRules(options: ExplainOptions, terminal: Terminal): Promise<void> {
  const report =
    options.server === undefined
      ? await orTrouble(terminal, () => fromFiles(options, terminal))
      : await fromServer(options, terminal);
  if (report === undefined) {
    terminal.setExitCode(2);
    return;
  }
  if (options.requiresMatch && !isMatched(report)) terminal.setExitCode(1);
  if (options.asJson) {
    terminal.out(`${JSON.stringify(report, null, 2)}\n`);
    return;
  }
  const unmet = report.descriptors.flatMap(({ rule }, at) => (rule === undefined ? [at] : []));
  terminal.out(`${explainText(report, terminal)}${unmetText(unmet, options.descriptors)}`);
}

async function fromFiles(options: ExplainOptions, terminal: Terminal): Promise<ExplainReport | undefined> {
  const ruleSet = await rulesOrTrouble(options, "the rules", terminal);
  return ruleSet === undefined ? undefined : explainRequest(ruleSet, options.domain, options.descriptors);
}

async function fromServer(options: ExplainOptions, terminal: Terminal): Promise<ExplainReport | undefined> {
  const { domain, descriptors, server = "", tokenFile } = options;
  const question = { domain, descriptors: descriptors.map(askedDescriptor) };
  const report = await askAdmin("/explain", question, { server, tokenFile }, terminal);
  if (isReport(report)) return report;
  if (report !== undefined)
    terminal.err("the answer is not Headgate's; --server takes the HTTP port, 8080 by default\n");
  return undefined;
}

// Enough to tell a report from the answer of another program on the port.
function isReport(value: unknown): value is ExplainReport {
  return typeof value === "object" && value !== null && "descriptors" in value && Array.isArray(value.descriptors);
}

/** True if a rule with a limit or an unlimited rule applies. A rule with neither counts as unmatched, as in metrics. */
function isMatched({ descriptors }: ExplainReport): boolean {
  return descriptors.length > 0 && descriptors.every(({ rule }) => rule !== undefined);
}
