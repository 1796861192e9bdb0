// What a simulation counts of one limit's holds: how many were opened, how they ended, and how far they were from what
// was used in the end.

import { MICROS_PER_SECOND } from "../../base/units.ts";
import { HoldFound, Mode, Outcome, type Take } from "../../engine/domain/take.ts";
import { heldName } from "./call-text.ts";
import type { HoldCounts } from "./limit-tally.ts";

/** Counts of one limit. */
export class HoldTally {
  readonly #counts: HoldCounts = {
    opened: 0,
    settled: 0,
    settled_below: 0,
    unused_hits: 0,
    settled_above: 0,
    exceeded_hits: 0,
    exceeded_hits_max: 0,
    expired: 0,
    late_settlements: 0,
    late_hits: 0,
    repeated_settlements: 0,
    settlements_of_refused: 0,
  };
  /** When each live hold ends, by its name. Holds end in the order in which they were paid. */
  readonly #live = new Map<string, number>();
  #unnamed = 0;

  /** Counts a decided take of the limit. */
  count(take: Take, atUs: number, isOfRefused: boolean): void {
    this.#expire(atUs);
    if (take.mode === Mode.pay) this.#open(take, atUs);
    else if (take.mode === Mode.settle && take.outcome !== Outcome.unanswered) this.#settle(take, isOfRefused);
  }

  /** What has been counted, with the holds that at that time are not settled and have not ended. */
  report(atUs: number): HoldCounts & { readonly live: number } {
    this.#expire(atUs);
    return { ...this.#counts, live: this.#live.size };
  }

  // Where holds are counted, a second hold under a known id gets no id.
  #open(take: Take, atUs: number): void {
    if (!take.paid || !take.openedHold) return;
    this.#counts.opened++;
    const named = heldName(take);
    const isNamed = take.holdId !== "" && !this.#live.has(named);
    const endsAtUs = atUs + take.limit.holdSeconds * MICROS_PER_SECOND;
    this.#live.set(isNamed ? named : `unnamed ${this.#unnamed++}`, endsAtUs);
  }

  #settle(take: Take, isOfRefused: boolean): void {
    const { cost, held, limit } = take;
    const counts = this.#counts;
    if (isOfRefused) counts.settlements_of_refused++;
    else if (held === HoldFound.settled) counts.repeated_settlements++;
    else if (held === HoldFound.none) {
      counts.late_settlements++;
      if (!limit.isConcurrent) counts.late_hits += cost;
    } else {
      counts.settled++;
      this.#live.delete(heldName(take));
      if (cost < held) {
        counts.settled_below++;
        counts.unused_hits += held - cost;
      } else if (cost > held) {
        counts.settled_above++;
        counts.exceeded_hits += cost - held;
        counts.exceeded_hits_max = Math.max(counts.exceeded_hits_max, cost - held);
      }
    }
  }

  #expire(atUs: number): void {
    for (const [name, endsAtUs] of this.#live) {
      if (endsAtUs > atUs) return;
      this.#live.delete(name);
      this.#counts.expired++;
    }
  }
}
