// Writes the report of a simulation as text for people.

import { durationWords } from "../../base/units.ts";
import { visible } from "../../base/visible.ts";
import { percent } from "../mirror/report.ts";
import type { ShownRefusal } from "../simulate/refusals.ts";
import type { LimitOutcome, SimulationReport } from "../simulate/report.ts";
import { count, paint, type Terminal } from "./terminal.ts";

/** Rows shown of each list; the JSON report has them all. */
const SHAPES_SHOWN = 10;
const CHANGED_SHOWN = 5;
const MET_SHOWN = 10;

/** The report as text, ending in a line feed. */
export function simulationText(report: SimulationReport, terminal: Terminal): string {
  const asked = report.limits.filter((limit) => limit.asked + limit.reported > 0);
  const unasked = report.limits.filter((limit) => limit.asked + limit.reported === 0);
  const blocks = [
    headLines(report),
    ...asked.map(limitLines),
    unasked.length === 0 ? [] : ["limits that no call asked:", ...unasked.map(({ limit }) => `  ${limit}`)],
    runtimeLines(report),
    unmatchedLines(report),
    changeLines(report),
    ...report.refusals.map(refusalLines),
  ];
  const text = blocks.filter((lines) => lines.length > 0).map((lines) => lines.map(shown).join("\n"));
  return `${text.join("\n\n")}\n`;

  function shown(line: string): string {
    return /^\S/.test(line) ? paint(terminal, "bold", visible(line)) : visible(line);
  }
}

function headLines({ calls, time, evicted_buckets }: SimulationReport): string[] {
  const lines = [
    `${count(calls.read, "call")}: ${calls.allowed} allowed, ${calls.refused} refused${percent(calls.refused, calls.read)}`,
  ];
  if (time.from !== null && time.to !== null) lines.push(`  from ${time.from} to ${time.to}`);
  if (calls.shadowed > 0) lines.push(`  ${calls.shadowed} of the allowed ones would be refused without shadow mode`);
  for (const [code, number] of Object.entries(calls.rejected)) lines.push(`  ${number} rejected with ${code}`);
  if (calls.undecided > 0) {
    lines.push(`  ${calls.undecided} not decided for want of memory for sliding logs, and decided by on_store_failure`);
  }
  if (time.late > 0) {
    lines.push(
      `  ${time.late} came late, by ${durationWords(time.late_seconds_max)} at most; decided at the time of the latest`,
    );
  }
  if (time.late * 10 > calls.read)
    lines.push("  so many late ones tell of a file in another order: sort it by time, or give a longer --late");
  if (time.gaps > 0) {
    lines.push(
      `  ${count(time.gaps, "silence")} of a minute or more, the longest ${durationWords(time.longest_gap_seconds)} from ${time.longest_gap_from}`,
    );
  }
  if (evicted_buckets > 0)
    lines.push(`  ${evicted_buckets} buckets dropped for want of memory: refusals may be missing`);
  return lines;
}

function limitLines(limit: LimitOutcome): string[] {
  const atLeast = limit.callers_exact ? "" : "at least ";
  const lines = [
    `${limit.limit}: ${limit.words}`,
    `  ${limit.asked} asked, ${limit.refused} refused${percent(limit.refused, limit.asked)}` +
      (limit.reported === 0
        ? ""
        : `, ${limit.reported} ${limit.holds === null ? "reports" : "settlements"} and refunds`),
  ];
  if (limit.refused > 0) {
    lines.push(`  refused ${atLeast}${limit.callers_refused} of ${atLeast}${count(limit.callers, "caller")}`);
  }
  lines.push(...holdLines(limit));
  const { first_refusal: first, longest_refusal: longest, smallest_burst: smallest } = limit;
  if (first !== null) lines.push(`  first   ${first.at}  ${first.caller}`);
  if (longest !== null) {
    lines.push(
      `  longest ${durationWords(longest.seconds)} from ${longest.from}  ${longest.caller} (${count(longest.calls, "call")})`,
    );
  }
  for (const { caller, refused } of limit.worst_callers)
    lines.push(`  ${String(refused).padStart(7)} refused: ${caller}`);
  if (smallest !== null) {
    const room = limit.refused > 0 ? "would have refused nobody" : `is all that was needed of ${limit.burst}`;
    lines.push(`  a burst of ${smallest} ${room}`);
  } else if (limit.refused > 0) lines.push("  no burst would have let every call pass");
  return lines;
}

function holdLines({ holds }: LimitOutcome): string[] {
  if (holds === null) return [];
  const lines = [
    `  holds: ${holds.opened} opened, ${holds.settled} settled, ${holds.expired} expired, ${holds.live} live at the end`,
  ];
  if (holds.settled_below > 0) {
    lines.push(`    ${holds.settled_below} had held more than was used, by ${holds.unused_hits} in all`);
  }
  if (holds.settled_above > 0) {
    lines.push(
      `    ${holds.settled_above} had held less, by ${holds.exceeded_hits} in all and ${holds.exceeded_hits_max} at most`,
    );
  }
  if (holds.late_settlements > 0) {
    lines.push(`    ${count(holds.late_settlements, "settlement")} found no hold and charged ${holds.late_hits}`);
  }
  if (holds.repeated_settlements > 0) lines.push(`    ${count(holds.repeated_settlements, "settlement")} came again`);
  if (holds.settlements_of_refused > 0) {
    lines.push(`    ${count(holds.settlements_of_refused, "settlement")} left out, of calls that are refused here`);
  }
  return lines;
}

function runtimeLines({ runtime_limits: limits }: SimulationReport): string[] {
  if (limits === null) return [];
  const lines = [`limits at run time: calls met ${limits.met.length} of ${limits.given}`];
  for (const { caller, words, calls, refused, shadowed, refused_by_old: old } of limits.met.slice(0, MET_SHOWN)) {
    lines.push(`  ${caller}: ${words.join("; ")}`);
    const onPaper = shadowed === 0 ? "" : `, ${shadowed} refused only on paper`;
    lines.push(`    ${count(calls, "call")}, ${refused} refused${percent(refused, calls)}${onPaper}, ${old} before`);
  }
  const hidden = limits.met.length - MET_SHOWN;
  if (hidden > 0) lines.push(`  and ${hidden} more; --json lists them`);
  return lines;
}

function unmatchedLines({ unmatched }: SimulationReport): string[] {
  if (unmatched.descriptors === 0) return [];
  const lines = [`${count(unmatched.descriptors, "descriptor")} met no rule`];
  for (const { domain, keys, descriptors, domain_has_rules } of unmatched.shapes.slice(0, SHAPES_SHOWN)) {
    const named = keys.length === 0 ? "(no entries)" : keys.join(", ");
    lines.push(
      `  ${String(descriptors).padStart(7)}  ${domain}: ${named}${domain_has_rules ? "" : "  (no such domain)"}`,
    );
  }
  const hidden = unmatched.shapes.length - SHAPES_SHOWN;
  if (hidden > 0) lines.push(`  and ${hidden} more kinds`);
  return lines;
}

function changeLines({ changes, calls }: SimulationReport): string[] {
  if (changes === null) return [];
  const { newly_refused, newly_allowed } = changes;
  const lines = [
    `changes: ${newly_refused.calls} newly refused${percent(newly_refused.calls, calls.read)},` +
      ` ${newly_allowed.calls} newly allowed, ${changes.refused_by_both} refused before and now`,
  ];
  for (const [code, number] of Object.entries(changes.rejected_by_old)) {
    lines.push(`  ${number} rejected before with ${code}, and not compared`);
  }
  for (const { limit, calls: number, callers } of newly_refused.limits.slice(0, CHANGED_SHOWN)) {
    lines.push(`  ${number} newly refused by ${limit}, of ${count(callers, "caller")}`);
  }
  for (const { limit, calls: number, callers } of newly_allowed.limits.slice(0, CHANGED_SHOWN)) {
    lines.push(`  ${number} no longer refused by ${limit}, of ${count(callers, "caller")}`);
  }
  return lines;
}

function refusalLines(refusal: ShownRefusal): string[] {
  const asked = refusal.descriptors.map((descriptor) => `[${descriptor}]`).join(" ");
  return [
    `call ${refusal.call}, ${refusal.at}, refused by ${refusal.limit}${refusal.rules === "old" ? " of the old rules" : ""}`,
    `  ${refusal.domain} ${asked}`,
    ...refusal.limits.map(toldLimit),
  ];
}

function toldLimit(told: ShownRefusal["limits"][number]): string {
  const verdict = told.had_room ? "had room" : "refused";
  const wait = told.wait_seconds === undefined ? "" : `, room again in ${durationWords(told.wait_seconds)}`;
  const full = told.full_in_seconds === 0 ? "" : `, full again in ${durationWords(told.full_in_seconds)}`;
  return `  ${verdict}: ${told.limit} for ${told.caller}, cost ${told.cost}; ${told.before} left before, ${told.after} after${wait}${full}`;
}
