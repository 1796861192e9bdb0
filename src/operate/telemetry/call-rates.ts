// Reads the history of calls: their outcomes over a time, and floods of refusals. Blocks refuse on purpose, so they
// make no flood. Pure.

import type { CallsView, HistoryView } from "./rate-history.ts";

type Samples = readonly (number | null)[];

/**
 * Refusals other than those of blocks. `share`: their part of all calls in the last minute, or in all of a flood that
 * is over.
 */
export interface Flood {
  readonly fromMs: number;
  readonly toMs: number;
  readonly isNow: boolean;
  readonly share: number;
}

/** From this share of refused calls on there is a flood. */
const FLOOD_SHARE = 0.05;
/** Least refusals of a flood. */
const FLOOD_REFUSALS = 5;
/** A flood goes on through pauses up to PAUSE_MS. It is over OVER_MS after its last refusals. */
const PAUSE_MS = 60_000;
const OVER_MS = 20_000;
export const MINUTE_MS = 60_000;

/** When each sample ended. */
export function endsOf({ at, seconds }: Pick<CallsView, "at" | "seconds">): number[] {
  let endMs = Date.parse(at) + seconds.reduce<number>((sum, length) => sum - (length ?? 0), 0) * 1_000;
  return seconds.map((length) => {
    endMs += (length ?? 0) * 1_000;
    return endMs;
  });
}

/** What was counted between two times: of a sample that lies there in part, that part. */
export function countBetween(history: CallsView, counts: Samples, fromMs: number, toMs: number): number {
  const ends = endsOf(history);
  return counts.reduce<number>((sum, count, i) => {
    const [endMs = 0, lengthMs = 0] = [ends[i], (history.seconds[i] ?? 0) * 1_000];
    const overlapMs = Math.min(endMs, toMs) - Math.max(endMs - lengthMs, fromMs);
    return overlapMs <= 0 ? sum : sum + ((count ?? 0) * overlapMs) / lengthMs;
  }, 0);
}

/** Calls between two times: how many, and the parts of them with each outcome. `refused` leaves out `blocked`. */
export function callsOver(history: CallsView, fromMs: number, toMs: number) {
  const { calls } = history;
  const over = (list: Samples) => countBetween(history, list, fromMs, toMs);
  const [blocked, refused] = [over(calls.blocked), over(calls.refused)];
  const all = over(calls.allowed) + refused + over(calls.errors);
  const knownMs = over(history.seconds) * 1_000;
  const partOf = (count: number) => (all === 0 ? 0 : Math.min(1, Math.max(0, count) / all));
  return {
    all,
    // Of a process that has just started, less than that time is known.
    perSecond: knownMs === 0 ? 0 : (all * 1_000) / knownMs,
    refused: partOf(refused - blocked),
    blocked: partOf(blocked),
    shadowed: partOf(over(calls.shadowed)),
    passed: partOf(over(calls.passed)),
    failed: partOf(over(calls.errors)),
  };
}

/** The last flood. */
export function lastFlood(history: CallsView): Flood | undefined {
  const ends = endsOf(history);
  const { allowed, refused, blocked } = history.calls;
  const unwanted = refused.map((count, i) => Math.max(0, (count ?? 0) - (blocked[i] ?? 0)));
  let flood: { fromMs: number; toMs: number } | undefined;
  for (const [i, toMs] of ends.entries()) {
    const [over, others] = [unwanted[i] ?? 0, (allowed[i] ?? 0) + (blocked[i] ?? 0)];
    if (over === 0 || over < FLOOD_SHARE * (over + others)) continue;
    const fromMs = toMs - (history.seconds[i] ?? 0) * 1_000;
    flood = { fromMs: flood !== undefined && fromMs - flood.toMs <= PAUSE_MS ? flood.fromMs : fromMs, toMs };
  }
  if (flood === undefined || countBetween(history, unwanted, flood.fromMs, flood.toMs) < FLOOD_REFUSALS)
    return undefined;
  const atMs = Date.parse(history.at);
  const isNow = atMs - flood.toMs <= OVER_MS;
  const fromMs = isNow ? Math.max(flood.fromMs, atMs - MINUTE_MS) : flood.fromMs;
  return { ...flood, isNow, share: callsOver(history, fromMs, isNow ? atMs : flood.toMs).refused };
}

/** The limit that refused most between two times, and its share of the refusals; undefined without refusals. */
export function refusingMost(history: HistoryView, fromMs: number, toMs: number) {
  const counts = Object.entries(history.limits).map(([id, { refused }]) => ({
    id,
    refused: countBetween(history, refused, fromMs, toMs),
  }));
  const all = counts.reduce((sum, { refused }) => sum + refused, 0);
  const [most] = counts.sort((one, other) => other.refused - one.refused);
  return most === undefined || all === 0 ? undefined : { id: most.id, part: most.refused / all };
}
