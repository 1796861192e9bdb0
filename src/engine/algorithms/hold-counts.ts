// Which stats count the holds of a bucket, as a number in its record.

import type { SharedCounts } from "../base/shared-counts.ts";
import { OWN_LIMIT } from "../domain/limit.ts";
import { LimitStats } from "../domain/stats.ts";

/** Number of stats that belong to no rule, such as a limit made from its numbers (held-limit.ts). */
const NO_RULE = 0;

/** Numbers for the stats of one thread, or with `counts` numbers that all threads understand. */
export class HoldCounts {
  readonly #counts: SharedCounts | undefined;
  readonly #all: LimitStats[] = [OWN_LIMIT.stats];
  readonly #numbers = new Map([[OWN_LIMIT.stats, NO_RULE]]);

  constructor(counts?: SharedCounts) {
    this.#counts = counts;
  }

  numberOf(stats: LimitStats): number {
    if (this.#counts !== undefined) {
      const at = stats.placeIn(this.#counts);
      return at === undefined ? NO_RULE : this.#counts.numberOf(at);
    }
    const number = this.#numbers.get(stats) ?? this.#all.push(stats) - 1;
    this.#numbers.set(stats, number);
    return number;
  }

  /** Stats whose name was given up count no more: nobody would show them. */
  statsOf(number: number): LimitStats {
    if (this.#counts === undefined) return this.#all[number] ?? OWN_LIMIT.stats;
    const at = this.#counts.placeOf(number);
    return at === undefined ? OWN_LIMIT.stats : new LimitStats({ counts: this.#counts, at });
  }
}
