// How much the generated tests do. TEST_TIMES is the one knob: 1, the full number, unless it is set; `npm run check` and `npm test`
// set less, `npm run fuzz` fifty times as much.

import { seeded } from "./fault-schedule.ts";
import { runSeed } from "./run-seed.ts";

const FACTOR = readFactor(process.env.TEST_TIMES);

/** How many runs to make where `full` are made in a full run of the tests; at least one. */
export function runs(full: number): number {
  return Math.max(1, Math.round(full * FACTOR));
}

/** The part of all cases to try where all are tried in a full run: evenly spaced, others in each run. */
export function part<T>(all: readonly T[]): readonly T[] {
  const step = Math.max(1, all.length / runs(all.length));
  const from = seeded(runSeed())() * Math.min(step, all.length);
  return all.filter((_, i) => Math.floor((i + from) / step) !== Math.floor((i + from - 1) / step));
}

/** How long a test may take whose full run takes `fullMs` at most on a slow machine. */
export function runsMs(fullMs: number): number {
  return fullMs * Math.max(1, FACTOR);
}

function readFactor(text: string | undefined): number {
  const factor = Number(text ?? 1);
  if (!(factor > 0)) throw new Error(`TEST_TIMES: expected a number above 0, got ${text}`);
  return factor;
}
