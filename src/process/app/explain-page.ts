// What POST /explain answers: the rules' report, and what the running process knows in addition.

import { runInTurns } from "../../engine/base/long-work.ts";
import { explainSteps } from "../../engine/rules/explain.ts";
import type { DescriptorReport, RuntimeLimitReport } from "../../engine/rules/explain-report.ts";
import type { ExplainQuestion } from "../../operate/http/read-questions.ts";
import type { UnmatchedEntry } from "../../operate/telemetry/domain-book.ts";
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
  const report = {
    ...ofRules,
    descriptors: ofRules.descriptors.map((each, i) => withRuntimeLimit(each, limitOf(i), showsWho)),
  };
  for (const { domain: unmatched, descriptors: count, exampleKeys } of await unmatchedOf(parts)) {
    if (unmatched === domain) return { ...report, unmatched: { descriptors: count, example_keys: exampleKeys } };
  }
  return report;
}

/** The report with what an operator has set for the caller. */
export function withRuntimeLimit(
  report: DescriptorReport,
  limit: RuntimeLimitReport | undefined,
  showsWho: boolean,
): DescriptorReport {
  // Settlements count whatever was set.
  if (limit === undefined || report.rule?.hold === "settled") return report;
  const { kind, limits, until, set_at, seen_us, note, who } = limit;
  const end = until === undefined ? "" : ` until ${until}`;
  const does =
    limits === undefined
      ? "a limit at run time is kept for it, but does nothing"
      : `set at run time${end}: ${limits.join("; ")}`;
  return {
    ...report,
    says: `${report.says}; ${does}`,
    runtime_limit: { kind, limits, until, set_at, seen_us, ...(showsWho ? { note, who } : {}) },
  };
}

/** Descriptors that met no rule. Each worker keeps the keys of one: those of others are shown where this one has none. */
export async function unmatchedOf({ calls, link }: AppParts): Promise<readonly UnmatchedEntry[]> {
  const shapes = new Map((await link?.views())?.flatMap(({ unmatched = [] }) => unmatched));
  return [...calls.domains.entries()].map((entry) => {
    const { domain, hasRules, descriptors, exampleKeys } = entry;
    const shown = exampleKeys.length > 0 ? exampleKeys : (shapes.get(domain) ?? []);
    return { domain, hasRules, descriptors, exampleKeys: shown };
  });
}
