// What a soak tells people when it is over: every fault with what callers saw of it, the same by kind, what was granted, memory.

import { faultLine } from "../support/fault-schedule.ts";
import { type Figures, slopePerMinute } from "./figures.ts";
import type { FaultTale, SoakTale } from "./run.ts";

/** Prints a line as it comes. */
export const say = (line: string): void => {
  process.stderr.write(`${line}\n`);
};

/** Prints all that came of a soak. */
export function report({ faults, calls, degraded, notes, grants, memory, ...tale }: SoakTale): void {
  say(`\n${row("what was staged", ["calls", "degraded", "failed", "healed after"])}`);
  for (const { fault, healMs, ...counts } of faults) {
    say(row(faultLine(fault).slice(0, 72), [counts.calls, counts.degraded, counts.failed, healed(healMs)]));
  }
  say(`\n${row("by kind", ["calls", "degraded", "failed", "healed after"])}`);
  for (const [kind, tales] of byKind(faults)) {
    const sum = (of: (tale: FaultTale) => number) => tales.reduce((total, tale) => total + of(tale), 0);
    const counts = [sum((one) => one.calls), sum((one) => one.degraded), sum((one) => one.failed)];
    // NaN, where one never healed before the next began, is more than all others.
    const longest = Math.max(...tales.map(({ healMs }) => healMs));
    say(row(`${String(tales.length).padStart(4)} x ${kind}`, [...counts, healed(longest)]));
  }
  const failed = notes.filter(({ ending }) => ending !== "degraded").length;
  say(`\n${calls} calls: ${degraded} answered without the store, ${failed} not answered by the service`);
  for (const { name, granted, most } of grants) say(`  ${name.padEnd(16)} granted ${granted} of at most ${most}`);
  const slope = slopePerMinute(settled(memory)).toFixed(1);
  say(`memory: ${span(memory.map(({ bytes }) => bytes / 1e6))} MB, ${slope} MB per minute`);
  const held = (figures: Figures) => `${figures.resources} (${figures.resourceLine})`;
  say(`held open: ${held(tale.resourcesBefore)} before, ${held(tale.resourcesAfter)} after`);
}

/** Memory after the first third of a run, when pools and caches have their size. */
export function settled(memory: SoakTale["memory"]): SoakTale["memory"] {
  return memory.slice(Math.floor(memory.length / 3));
}

function healed(ms: number): string {
  return Number.isNaN(ms) ? "in the next" : `${ms.toFixed(0)} ms`;
}

const WIDTHS = [7, 10, 8, 14];

function row(what: string, columns: readonly (number | string)[]): string {
  return what.padEnd(74) + columns.map((column, i) => String(column).padStart(WIDTHS[i] ?? 0)).join("");
}

function byKind(faults: readonly FaultTale[]): Map<string, FaultTale[]> {
  const kinds = new Map<string, FaultTale[]>();
  for (const tale of faults) {
    const { where, what } = tale.fault;
    const kind = where === undefined ? what.kind : `${what.kind} before the ${where === "store" ? "store" : "service"}`;
    kinds.set(kind, [...(kinds.get(kind) ?? []), tale]);
  }
  return new Map([...kinds].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function span(values: readonly number[]): string {
  const [first = 0] = values;
  return `${first.toFixed(0)} at first, ${Math.max(...values).toFixed(0)} at most, ${(values.at(-1) ?? 0).toFixed(0)} at last`;
}
