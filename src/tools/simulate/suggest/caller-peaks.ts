// A number for each caller, in bounded memory.

import { hash } from "node:crypto";

/** Callers counted separately over all kinds of descriptors of a run: some 200 bytes each. Others are ignored. */
const CALLERS_MAX = 500_000;

/** What is left of this bound; all kinds share it. `isExceeded`: a caller was not looked at. */
export const callersLeft = (count = CALLERS_MAX) => ({ count, isExceeded: false });

interface Caller {
  /** The last interval with calls of this caller, and the hits in it. */
  stretch: number;
  hits: number;
  /** The most hits in any interval. */
  peak: number;
}

/** Callers of one kind of descriptor. */
export class CallerPeaks {
  readonly #left: ReturnType<typeof callersLeft>;
  readonly #callers = new Map<string, Caller>();

  constructor(left: ReturnType<typeof callersLeft>) {
    this.#left = left;
  }

  /** Counts hits of a caller in an interval; its peak is the most in any. */
  count(name: string, hits: number, stretch: number): void {
    const caller = this.#of(name);
    if (caller === undefined || hits === 0) return;
    caller.hits = hits + (caller.stretch === stretch ? caller.hits : 0);
    caller.stretch = stretch;
    caller.peak = Math.max(caller.peak, caller.hits);
  }

  /** Raises a caller's peak to that number. */
  raise(name: string, peak: number): void {
    const caller = this.#of(name);
    if (caller !== undefined) caller.peak = Math.max(caller.peak, peak);
  }

  /** Forgets all callers. */
  clear(): void {
    this.#left.count += this.#callers.size;
    this.#callers.clear();
  }

  /** The peak that at least `share` (0 to 1) of the callers do not exceed; 0 without callers. */
  peakOf(share: number): number {
    const peaks = Float64Array.from([...this.#callers.values()], ({ peak }) => peak).sort();
    return peaks[Math.max(0, Math.ceil(share * peaks.length) - 1)] ?? 0;
  }

  #of(name: string): Caller | undefined {
    // Names are as long as callers like.
    const id = hash("sha1", name, "base64");
    let caller = this.#callers.get(id);
    if (caller !== undefined) return caller;
    if (this.#left.count === 0) {
      this.#left.isExceeded = true;
      return undefined;
    }
    this.#left.count--;
    caller = { stretch: -1, hits: 0, peak: 0 };
    this.#callers.set(id, caller);
    return caller;
  }
}
