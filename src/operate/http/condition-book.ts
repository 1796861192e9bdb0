// Remembers when each finding was first found. Findings are made once a second.

import { MICROS_PER_SECOND } from "../../base/units.ts";
import type { Condition, Finding } from "../condition.ts";

/** A counter that did not grow for this long is at rest. */
const AT_REST_US = 60 * MICROS_PER_SECOND;

/** Remembers findings by their ids from one look to the next. */
export class ConditionBook {
  readonly #sinceUs = new Map<string, number>();

  /** Gives each finding of this look its time. A remembered finding that is not among them is over. */
  note(findings: readonly Finding[], nowUs: number): readonly Condition[] {
    const ids = new Set(findings.map(({ id }) => id));
    for (const id of this.#sinceUs.keys()) if (!ids.has(id)) this.#sinceUs.delete(id);
    return findings.map((finding): Condition => {
      const sinceUs = this.#sinceUs.get(finding.id) ?? nowUs;
      this.#sinceUs.set(finding.id, sinceUs);
      return { ...finding, sinceUs };
    });
  }
}

interface Spell {
  /** The counter before the spell, and its value at the last look. */
  readonly before: number;
  readonly last: number;
  readonly grewUs: number;
}

/**
 * Growth of counters of things that should not happen. A spell of growth ends when the counter has rested for a minute.
 */
export class GrowthBook {
  readonly #spells = new Map<string, Spell>();

  /** How much the counter has grown in the present spell; 0 while it is at rest. Counters begin at 0. */
  grown(id: string, count: number, nowUs: number): number {
    const { before, last, grewUs } = this.#spells.get(id) ?? { before: 0, last: 0, grewUs: Number.NEGATIVE_INFINITY };
    const isAtRest = nowUs - grewUs >= AT_REST_US;
    if (count > last) {
      const start = isAtRest ? last : before;
      this.#spells.set(id, { before: start, last: count, grewUs: nowUs });
      return count - start;
    }
    return isAtRest ? 0 : count - before;
  }
}
