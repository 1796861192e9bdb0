// Since when things are wrong: findings are looked at once a second, and each keeps the time of the look that found it first.

import type { Condition, Finding } from "../core/condition.ts";
import { MICROS_PER_SECOND } from "../core/units.ts";

/** A counter that has not grown for this long is at rest. */
const AT_REST_US = 60 * MICROS_PER_SECOND;

/** Remembers findings by their ids, from one look to the next. */
export class ConditionBook {
  readonly #sinceUs = new Map<string, number>();

  /** The findings of this look with their times, what is critical first, then what is oldest. What is not among them is over. */
  note(findings: readonly Finding[], nowUs: number): readonly Condition[] {
    const ids = new Set(findings.map(({ id }) => id));
    for (const id of this.#sinceUs.keys()) if (!ids.has(id)) this.#sinceUs.delete(id);
    const conditions = findings.map((finding): Condition => {
      const sinceUs = this.#sinceUs.get(finding.id) ?? nowUs;
      this.#sinceUs.set(finding.id, sinceUs);
      return { ...finding, sinceUs };
    });
    return inOrder(conditions);
  }
}

/** What is critical first, then what is oldest. */
export function inOrder(conditions: readonly Condition[]): readonly Condition[] {
  return conditions.toSorted((one, other) => {
    if (one.severity !== other.severity) return one.severity === "critical" ? -1 : 1;
    return one.sinceUs - other.sinceUs;
  });
}

interface Spell {
  /** The counter before the spell, and as it was seen last. */
  readonly before: number;
  readonly last: number;
  readonly grewUs: number;
}

/** Counters of things that should not happen: by how much each has grown since it was last at rest for a minute. */
export class GrowthBook {
  readonly #spells = new Map<string, Spell>();

  /** 0 while it is at rest. Counters begin at 0. */
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
