// Loads the rules, runs the simulation, prints its report.

import { visible } from "../../base/visible.ts";
import { simulate } from "../simulate/simulate.ts";
import type { PlacedLimit } from "../simulate/simulated-limits.ts";
import type { Mapping } from "../simulate/sources/mapping.ts";
import { type FileChoiceFlags, sayLines, withInput } from "./call-options.ts";
import { readLimits } from "./limit-lines.ts";
import { decidingSettings, rulesOrTrouble, virtualSettings } from "./rules-source.ts";
import { simulationText } from "./simulation-text.ts";
import { jsonText, orTrouble, type Terminal } from "./terminal.ts";

export interface SimulateFlags extends FileChoiceFlags {
  readonly rules?: string | undefined;
  readonly against?: string;
  /** A file of limits at run time, or the limits. */
  readonly limits?: string | readonly PlacedLimit[] | undefined;
  readonly mergeDomains?: true | undefined;
  readonly explain: number;
  readonly tolerate?: number;
  readonly json?: true | undefined;
}

/** How late a line of a log may come with --dry-run: the default of --late. */
const CALLS_LATE_MS = 60_000;

/**
 * Simulates the files. Exit code 0, or 1 if more was refused than is tolerated, or 2 if settings, rules or files can't
 * be used.
 */
export async function simulateFiles(
  files: readonly string[],
  flags: SimulateFlags,
  mapping: Mapping | undefined,
  terminal: Terminal,
): Promise<void> {
  const settings = await orTrouble(terminal, () => decidingSettings(terminal.env));
  if (settings === undefined) return;
  const rulesAt = (path: string | undefined) => {
    const called = path === undefined ? "the rules" : `the rules in ${visible(path)}`;
    return rulesOrTrouble({ path, mergeDomains: flags.mergeDomains }, called, terminal, settings);
  };
  const ruleSet = await rulesAt(flags.rules);
  const against = flags.against === undefined ? undefined : await rulesAt(flags.against);
  if (ruleSet === undefined || (flags.against !== undefined && against === undefined)) return;
  const result = await orTrouble(terminal, () =>
    withInput(files, async (kept) =>
      simulate({
        limits: typeof flags.limits === "string" ? await readLimits(flags.limits) : flags.limits,
        ruleSet,
        against,
        settings: virtualSettings(settings),
        files: kept,
        mapping,
        lateMaxUs: flags.late * 1_000,
        explainMax: flags.explain,
        hashesAll: flags.values === "hash",
      }),
    ),
  );
  if (result === undefined) return;
  const { report, lines } = result;
  sayLines(lines, terminal);
  terminal.out(flags.json ? jsonText(report) : simulationText(report, terminal));
  const refused = against === undefined ? report.calls.refused : (report.changes?.newly_refused.calls ?? 0);
  terminal.setExitCode(flags.tolerate !== undefined && refused > flags.tolerate * report.calls.read ? 1 : 0);
}

/** What limits at run time would have done to the calls of a file: `headgate limits ... --dry-run FILE`. */
export function simulateLimits(
  file: string,
  limits: SimulateFlags["limits"],
  { rules, mergeDomains, json }: Pick<SimulateFlags, "rules" | "mergeDomains" | "json">,
  terminal: Terminal,
): Promise<void> {
  const flags = { limits, rules, mergeDomains, json, explain: 0, late: CALLS_LATE_MS, values: "show" } as const;
  return simulateFiles([file], flags, undefined, terminal);
}
