// Calls as rows that people can read: those of one step with the same answer are one row, though others may lie between them.

import type { Played, PlayedCall } from "./engine.ts";

/** Calls of one step, with the same code by the same limit. */
export interface Run {
  /** Index of the first call. */
  readonly index: number;
  readonly first: PlayedCall;
  readonly last: PlayedCall;
  readonly count: number;
}

export function runsOf(calls: readonly PlayedCall[]): readonly Run[] {
  const runs: Run[] = [];
  calls.forEach((call, index) => {
    const at = runs.findLastIndex(({ last }) => last.line !== call.line || isSame(last, call));
    const run = runs[at];
    if (run !== undefined && isSame(run.last, call)) runs[at] = { ...run, last: call, count: run.count + 1 };
    else runs.push({ index, first: call, last: call, count: 1 });
  });
  return runs;
}

function isSame(a: PlayedCall, b: PlayedCall): boolean {
  return a.line === b.line && a.code === b.code && a.rule === b.rule && a.error === b.error;
}

/** Calls of one slice of time. */
export interface Slice {
  passed: number;
  refused: number;
}

/** The calls over their time, in `count` slices of equal length. Empty without any call. */
export function slicesOf({ calls }: Pick<Played, "calls">, count: number): readonly Slice[] {
  if (calls.length === 0) return [];
  const times = calls.map(({ atUs }) => atUs);
  const beginUs = times.reduce((least, us) => Math.min(least, us));
  const lengthUs = Math.max(1, times.reduce((most, us) => Math.max(most, us)) - beginUs);
  const slices = Array.from({ length: count }, () => ({ passed: 0, refused: 0 }));
  for (const { atUs, code } of calls) {
    const slice = slices[Math.min(count - 1, Math.floor(((atUs - beginUs) / lengthUs) * count))] as Slice;
    if (code === "OK") slice.passed++;
    else slice.refused++;
  }
  return slices;
}
