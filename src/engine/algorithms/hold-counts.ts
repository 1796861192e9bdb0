// Which stats count the holds of a bucket, as a number that stands in memory which threads share.

import type { SharedCounts } from "../base/shared-counts.ts";
import { OWN_LIMIT } from "../domain/limit.ts";
import { LimitStats } from "../domain/stats.ts";

/** Gives the stats that count holds a whole number, which all threads understand. */
export interface HoldCounts {
  numberOf(stats: LimitStats): number;
  statsOf(number: number): LimitStats;
}

/** `numberOf` the stats of no rule, such as those of a limit that comes from its numbers (held-limit.ts). */
const NO_RULE = 0;

/** For a book that one thread has. */
export class OwnHoldCounts implements HoldCounts {
  readonly #all: LimitStats[] = [OWN_LIMIT.stats];
  readonly #numbers = new Map([[OWN_LIMIT.stats, NO_RULE]]);

  numberOf(stats: LimitStats): number {
    const known = this.#numbers.get(stats);
    if (known !== undefined) return known;
    const number = this.#all.push(stats) - 1;
    this.#numbers.set(stats, number);
    return number;
  }

  statsOf(number: number): LimitStats {
    return this.#all[number] ?? OWN_LIMIT.stats;
  }
}

/** For a book that threads share. Stats whose name was given up count no more: no call would show them. */
export class SharedHoldCounts implements HoldCounts {
  readonly #counts: SharedCounts;

  constructor(counts: SharedCounts) {
    this.#counts = counts;
  }

  numberOf(stats: LimitStats): number {
    const at = stats.placeIn(this.#counts);
    return at === undefined ? NO_RULE : this.#counts.numberOf(at);
  }

  statsOf(number: number): LimitStats {
    const at = this.#counts.placeOf(number);
    return at === undefined ? OWN_LIMIT.stats : new LimitStats({ counts: this.#counts, at });
  }
}
