// Numbers from the server's history: rates per second and when they were. Pure.

/** @typedef {readonly (number | null)[]} Samples the oldest first; null: not known */

/** When each sample ended. @param {Pick<CallHistory, "at" | "seconds">} history @returns {number[]} */
export function endsOf({ at, seconds }) {
  let endMs = Date.parse(at) - knownMs({ seconds });
  return seconds.map((length) => {
    endMs += (length ?? 0) * 1_000;
    return endMs;
  });
}

/** How long the history is. @param {Pick<CallHistory, "seconds">} history */
export function knownMs({ seconds }) {
  return seconds.reduce((/** @type {number} */ sum, length) => sum + (length ?? 0), 0) * 1_000;
}

/** @param {Pick<CallHistory, "seconds">} history @param {Samples} counts @returns {(number | null)[]} */
export function ratesOf({ seconds }, counts) {
  return counts.map((count, i) => (count === null ? null : count / (seconds[i] ?? 1)));
}

/** The latest one; null if it is not known. @param {Samples} samples */
export function latest(samples) {
  return samples.at(-1) ?? null;
}

/** Most limits in the history. If it has fewer, all others were not hit. */
const HISTORY_LIMITS = 200;

/** Hits per second of a limit, and refusals. @param {CallHistory} history @param {string} id */
export function limitRates(history, id) {
  const isKnown = Object.keys(history.limits).length < HISTORY_LIMITS;
  const none = history.seconds.map(() => (isKnown ? 0 : null));
  const { hits, refused } = history.limits[id] ?? { hits: none, refused: none };
  return { line: ratesOf(history, hits), area: ratesOf(history, refused) };
}
