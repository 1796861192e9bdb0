// Loads the rules, runs the simulation, prints its report.

import { visible } from "../../engine/base/visible.ts";
import type { SimulationReport } from "../simulate/report.ts";
import { simulate } from "../simulate/simulate.ts";
import type { Mapping } from "../simulate/sources/mapping.ts";
import { type FileChoiceFlags, sayLines, withInput } from "./call-options.ts";
import { readLimits } from "./limit-lines.ts";
import { decidingSettings, rulesOrTrouble, virtualSettings } from "./rules-source.ts";
import { simulationText } from "./simulation-text.ts";
import { jsonText, orTrouble, type Terminal } from "./terminal.ts";

export interface SimulateFlags extends FileChoiceFlags {
  readonly rules?: string;
  readonly against?: string;
  readonly limits?: string;
  readonly mergeDomains?: true;
  readonly explain: number;
  readonly tolerate?: number;
  readonly json?: true;
}

/** Simulates the files. Exit code 0, or 1 if more was refused than is tolerated, or 2 if settings, rules or files can't be used. */
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
        limits: flags.limits === undefined ? undefined : await readLimits(flags.limits),
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
  terminal.setExitCode(flags.tolerate !== undefined && refusedShare(report) > flags.tolerate ? 1 : 0);
}

function refusedShare({ calls, changes }: SimulationReport): number {
  if (calls.read === 0) return 0;
  return (changes === null ? calls.refused : changes.newly_refused.calls) / calls.read;
}
