// Numbers from the server's history: rates per second, outcomes of calls over a time, and floods of refusals. Pure.

/**
 * @typedef {import("../src/operate/telemetry/rate-history.ts").HistoryView} History
 * @typedef {readonly (number | null)[]} Samples the oldest first; null: not known
 * @typedef {{ readonly fromMs: number, readonly toMs: number, readonly isNow: boolean, readonly share: number }} Flood
 */

/** Time that charts cover. */
export const SPAN_MS = 900_000;
/** From this share of refused calls on there is a flood. */
const FLOOD_SHARE = 0.05;
/** Least refusals of a flood. */
const FLOOD_REFUSALS = 5;
/** A flood goes on through pauses up to PAUSE_MS. It is over OVER_MS after its last refusals. */
const PAUSE_MS = 60_000;
const OVER_MS = 20_000;
export const MINUTE_MS = 60_000;

/** When each sample ended. @param {History} history @returns {number[]} */
export function endsOf({ at, seconds }) {
  let endMs = Date.parse(at) + seconds.reduce((sum, length) => sum - (length ?? 0), 0) * 1_000;
  return seconds.map((length) => {
    endMs += length * 1_000;
    return endMs;
  });
}

/** @param {History} history @param {Samples} counts @returns {(number | null)[]} */
export function ratesOf({ seconds }, counts) {
  return counts.map((count, i) => (count === null ? null : count / (seconds[i] ?? 1)));
}

/** The latest one; null if it is not known. @param {Samples} samples */
export function latest(samples) {
  return samples.at(-1) ?? null;
}

/** What was counted between two times: of a sample that lies there in part, that part. @param {History} history @param {Samples} counts @param {number} fromMs @param {number} toMs */
export function countOver(history, counts, fromMs, toMs) {
  const ends = endsOf(history);
  return counts.reduce((/** @type {number} */ sum, count, i) => {
    const [endMs = 0, lengthMs = 0] = [ends[i], (history.seconds[i] ?? 0) * 1_000];
    const overlapMs = Math.min(endMs, toMs) - Math.max(endMs - lengthMs, fromMs);
    return overlapMs <= 0 ? sum : sum + ((count ?? 0) * overlapMs) / lengthMs;
  }, 0);
}

/** Outcomes of calls between two times. @param {History} history @param {number} fromMs @param {number} toMs */
export function callsOver(history, fromMs, toMs) {
  const { allowed, refused, errors } = history.calls;
  const [passed, over, failed] = [allowed, refused, errors].map((list) => countOver(history, list, fromMs, toMs));
  const all = (passed ?? 0) + (over ?? 0) + (failed ?? 0);
  const partOf = (count = 0) => (all === 0 ? 0 : count / all);
  return { all, perSecond: (all * 1_000) / (toMs - fromMs), refused: partOf(over), failed: partOf(failed) };
}

/**
 * The last flood. `share`: refused calls in the last minute, or in all of a flood that is over.
 * @param {History | null} history @returns {Flood | undefined}
 */
export function lastFlood(history) {
  if (history === null) return undefined;
  const ends = endsOf(history);
  const { allowed, refused } = history.calls;
  /** @type {{ fromMs: number, toMs: number } | undefined} */
  let flood;
  ends.forEach((toMs, i) => {
    const [over, passed] = [refused[i] ?? 0, allowed[i] ?? 0];
    if (over === 0 || over < FLOOD_SHARE * (over + passed)) return;
    const fromMs = toMs - (history.seconds[i] ?? 0) * 1_000;
    flood = { fromMs: flood !== undefined && fromMs - flood.toMs <= PAUSE_MS ? flood.fromMs : fromMs, toMs };
  });
  if (flood === undefined || countOver(history, refused, flood.fromMs, flood.toMs) < FLOOD_REFUSALS) return undefined;
  const atMs = Date.parse(history.at);
  const isNow = atMs - flood.toMs <= OVER_MS;
  const fromMs = isNow ? Math.max(flood.fromMs, atMs - MINUTE_MS) : flood.fromMs;
  return { ...flood, isNow, share: callsOver(history, fromMs, isNow ? atMs : flood.toMs).refused };
}

/** The rule that refused most between two times, and its share of the refusals; undefined without refusals. @param {History} history @param {number} fromMs @param {number} toMs */
export function refusingMost(history, fromMs, toMs) {
  const counts = Object.entries(history.limits).map(([id, { refused }]) => ({
    id,
    refused: countOver(history, refused, fromMs, toMs),
  }));
  const all = counts.reduce((sum, { refused }) => sum + refused, 0);
  const [most] = counts.sort((one, other) => other.refused - one.refused);
  return most === undefined || all === 0 ? undefined : { id: most.id, part: most.refused / all };
}
