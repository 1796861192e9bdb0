// `headgate limits ... --dry-run FILE`: what limits at run time would have done to recorded calls.

import { visible } from "../../engine/base/visible.ts";
import type { SimulationReport } from "../simulate/report.ts";
import { simulate } from "../simulate/simulate.ts";
import type { PlacedLimit } from "../simulate/simulated-limits.ts";
import { sayLines } from "./call-options.ts";
import { decidingSettings, rulesOrTrouble, virtualSettings } from "./rules-source.ts";
import { count, jsonText, orTrouble, type Terminal } from "./terminal.ts";

export interface OnCallsFlags {
  readonly rules?: string;
  readonly mergeDomains?: true;
  readonly json?: true;
}

/** How late a line of a log may come, as `simulate --late` by default. */
const LATE_MAX_US = 60_000_000;
/** Callers shown; JSON has them all. */
const CALLERS_SHOWN = 10;

/** Decides the calls of `file` with the limits and without any. Exit code 2 if settings, rules, limits or the file can't be used. */
export async function limitsOnCalls(
  file: string,
  limits: () => readonly PlacedLimit[] | Promise<readonly PlacedLimit[]>,
  { rules: path, mergeDomains, json }: OnCallsFlags,
  terminal: Terminal,
): Promise<void> {
  const result = await orTrouble(terminal, async () => {
    const settings = decidingSettings(terminal.env);
    const ruleSet = await rulesOrTrouble({ path, mergeDomains }, "the rules", terminal, settings);
    return (
      ruleSet &&
      simulate({
        ruleSet,
        against: ruleSet,
        limits: await limits(),
        comparesWithoutLimits: true,
        settings: virtualSettings(settings),
        files: [file],
        mapping: undefined,
        lateMaxUs: LATE_MAX_US,
      })
    );
  });
  if (result === undefined) return;
  sayLines(result.lines, terminal);
  const outcome = outcomeOf(result.report);
  terminal.out(json ? jsonText(outcome) : outcomeText(outcome));
}

function outcomeOf({ calls, time, changes, runtime_limits: limits }: SimulationReport) {
  const before = (changes?.refused_by_both ?? 0) + (changes?.newly_allowed.calls ?? 0);
  return {
    from: time.from,
    to: time.to,
    all: passedAndRefused(calls.allowed + calls.refused, before, calls.refused),
    callers: (limits?.met ?? []).map(({ caller, words, calls: own, refused, refused_by_old: old }) => ({
      caller,
      limits: words,
      ...passedAndRefused(own, old ?? 0, refused),
    })),
  };
}

function passedAndRefused(calls: number, before: number, after: number) {
  return {
    calls,
    without: { passed: calls - before, refused: before },
    with: { passed: calls - after, refused: after },
  };
}

function outcomeText({ from, to, all, callers }: ReturnType<typeof outcomeOf>): string {
  const shown = callers.slice(0, CALLERS_SHOWN);
  const lines = [
    ...shown.flatMap(({ caller, limits, ...counts }) => [`${caller}: ${limits.join("; ")}`, countsText(counts)]),
    ...(callers.length > shown.length ? [`and ${count(callers.length - shown.length, "more caller")}`] : []),
    ...(callers.length === 0 ? ["no call meets the change"] : []),
    from === null ? "all calls" : `all calls, from ${from} to ${to}`,
    countsText(all),
  ];
  return lines.map((line) => `${visible(line)}\n`).join("");
}

function countsText({ calls, without, with: after }: ReturnType<typeof passedAndRefused>): string {
  const words = ({ passed, refused }: typeof after) => `${passed} passed, ${refused} refused`;
  return `  ${count(calls, "call")}: ${words(without)}; with the change ${words(after)}`;
}
