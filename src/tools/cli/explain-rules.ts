// `headgate explain`: which rule a descriptor meets and why, from rule files or from a running server.

import { explainRequest } from "../../engine/rules/explain.ts";
import type { ExplainReport } from "../../engine/rules/explain-report.ts";
import { readExplainQuestion } from "../../operate/http/read-questions.ts";
import { askAdmin, askedDescriptor } from "./admin-call.ts";
import { type TypedDescriptor, unmetText } from "./arguments.ts";
import { explainText } from "./explain-text.ts";
import { rulesOrTrouble } from "./rules-source.ts";
import { jsonText, orTrouble, type Terminal } from "./terminal.ts";

/** Flags of `explain`. */
export interface ExplainFlags {
  readonly domain: string;
  /** Not read if `server` is given. */
  readonly rules?: string;
  readonly mergeDomains?: true;
  /** `http://host:port` or `host:port` of a running server's HTTP port. */
  readonly server?: string;
  readonly tokenFile?: string;
  readonly requireMatch?: true;
  readonly json?: true;
}

/**
 * Explains descriptors. Exit code 2 if rules or settings can't be used, 1 if a match is required and no rule applies,
 * else 0.
 */
export async function explainRules(
  descriptors: readonly TypedDescriptor[],
  flags: ExplainFlags,
  terminal: Terminal,
): Promise<void> {
  const { domain, rules: path, mergeDomains, server, tokenFile } = flags;
  const question = { domain, descriptors: descriptors.map(askedDescriptor) };
  const report =
    server === undefined
      ? await orTrouble(terminal, async () => {
          const asked = readExplainQuestion(Buffer.from(JSON.stringify(question)));
          const ruleSet = await rulesOrTrouble({ path, mergeDomains }, "the rules", terminal);
          return ruleSet && explainRequest(ruleSet, domain, asked.descriptors);
        })
      : await askAdmin<ExplainReport>({ server, tokenFile }, "/explain", "descriptors", terminal, question);
  if (report === undefined) return;
  const unmet = report.descriptors.flatMap(({ rule }, at) => (rule === undefined ? [at] : []));
  // A domain without rules has no descriptors in its report.
  if (flags.requireMatch && (unmet.length > 0 || report.descriptors.length === 0)) terminal.setExitCode(1);
  terminal.out(flags.json ? jsonText(report) : `${explainText(report, terminal)}${unmetText(unmet, descriptors)}`);
}
