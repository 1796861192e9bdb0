// What POST /explain answers: the rules' report, and what the running process knows in addition.

import { runInTurns } from "../../base/long-work.ts";
import { explainSteps } from "../../engine/rules/explain.ts";
import type { DescriptorReport, RuntimeLimitReport } from "../../engine/rules/explain-report.ts";
import type { ExplainQuestion } from "../../operate/http/read-questions.ts";
import type { AppParts } from "./app-parts.ts";

/** `showsWho`: with who has set limits at run time, and their notes. */
export async function explainQuestion(
  parts: AppParts,
  { domain, descriptors }: ExplainQuestion,
  showsWho: boolean,
): Promise<unknown> {
  const rules = parts.reloader.current;
  if (rules === undefined) return { says: "no rules are in force; see /config" };
  const ofRules = await runInTurns(explainSteps(rules, domain, descriptors));
  const { source } = parts.runtimeLimits;
  const limitOf = (i: number) => source.of({ domain, entries: descriptors[i] ?? [] });
  const handedOut = (i: number) => parts.quota.explain(domain, descriptors[i] ?? []);
  const report = {
    ...ofRules,
    descriptors: ofRules.descriptors.map((each, i) =>
      withQuota(withRuntimeLimit(each, limitOf(i), showsWho), handedOut(i)),
    ),
  };
  const unmatched = [...parts.calls.domains.entries()].find((entry) => entry.domain === domain);
  if (unmatched === undefined) return report;
  return { ...report, unmatched: { descriptors: unmatched.descriptors, example_keys: unmatched.exampleKeys } };
}

/** The report with what Envoys have of the bucket. */
function withQuota(report: DescriptorReport, handedOut: string | undefined): DescriptorReport {
  return handedOut === undefined ? report : { ...report, says: `${report.says}; ${handedOut}` };
}

/** The report with what an operator has set for the caller. */
export function withRuntimeLimit(
  report: DescriptorReport,
  limit: RuntimeLimitReport | undefined,
  showsWho: boolean,
): DescriptorReport {
  // Settlements count whatever was set.
  if (limit === undefined || report.rule?.hold === "settled") return report;
  const { limits, until } = limit;
  const end = until === undefined ? "" : ` until ${until}`;
  const does =
    limits === undefined
      ? "a limit at run time is kept for it, but does nothing"
      : `set at run time${end}: ${limits.join("; ")}`;
  return {
    ...report,
    says: `${report.says}; ${does}`,
    runtime_limit: limitReport(limit, showsWho),
  };
}

/** What an operator has set; who and why only for holders of a token. */
export function limitReport(
  { kind, limits, until, set_at, seen_us, note, who }: RuntimeLimitReport,
  showsWho: boolean,
): RuntimeLimitReport {
  return { kind, limits, until, set_at, seen_us, ...(showsWho ? { note, who } : {}) };
}
