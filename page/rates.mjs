// Rates per second out of counters that are looked at now and then, as far back as charts show them. Pure.

/** Looks that are remembered: two minutes, one every two seconds. */
export const LOOKS_MAX = 60;

/** A longer silence between two looks is a gap in the charts. */
const GAP_MS = 7_000;

/**
 * @typedef {Readonly<Record<string, number>>} Counters by name
 * @typedef {{ readonly atMs: number, readonly counts: ReadonlyMap<string, Counters> }} Look
 */

/** The last looks at one process. Another process, or the same one started again, begins anew. */
export class RateHistory {
  #instance = "";
  /** @type {Look[]} */
  #looks = [];

  /** @param {string} instance @param {number} atMs time of the server @param {ReadonlyMap<string, Counters>} counts by rule */
  add(instance, atMs, counts) {
    const last = this.#looks.at(-1);
    if (instance !== this.#instance) this.#looks = [];
    else if (last !== undefined && atMs <= last.atMs) return;
    this.#instance = instance;
    this.#looks.push({ atMs, counts });
    if (this.#looks.length > LOOKS_MAX + 1) this.#looks.shift();
  }

  /**
   * The rates between looks, the oldest first; null where nothing is known: before a rule was there, and where a counter has fallen.
   * @param {string} id @param {string} name
   * @returns {(number | null)[]}
   */
  rates(id, name) {
    /** @type {(number | null)[]} */
    const rates = [];
    this.#looks.forEach((look, i) => {
      const before = this.#looks[i - 1];
      if (before === undefined) return;
      if (look.atMs - before.atMs > GAP_MS) rates.push(null);
      rates.push(rateBetween(before, look, id, name));
    });
    return rates.slice(-LOOKS_MAX);
  }
}

/** The latest rate; null if it is not known. @param {readonly (number | null)[]} rates */
export function latest(rates) {
  return rates.at(-1) ?? null;
}

/** @param {Look} before @param {Look} look @param {string} id @param {string} name */
function rateBetween(before, look, id, name) {
  const from = before.counts.get(id)?.[name];
  const to = look.counts.get(id)?.[name];
  if (from === undefined || to === undefined || to < from) return null;
  return ((to - from) * 1_000) / (look.atMs - before.atMs);
}
