// Which stats count the holds of a bucket, as a number in its record.

import { OWN_LIMIT } from "../domain/limit.ts";
import type { LimitStats } from "../domain/stats.ts";

/** Number of stats that belong to no rule, such as a limit made from its numbers (held-limit.ts). */
const NO_RULE = 0;

/** Numbers for stats. */
export class HoldCounts {
  readonly #all: LimitStats[] = [OWN_LIMIT.stats];
  readonly #numbers = new Map([[OWN_LIMIT.stats, NO_RULE]]);

  numberOf(stats: LimitStats): number {
    const number = this.#numbers.get(stats) ?? this.#all.push(stats) - 1;
    this.#numbers.set(stats, number);
    return number;
  }

  statsOf(number: number): LimitStats {
    return this.#all[number] ?? OWN_LIMIT.stats;
  }
}
