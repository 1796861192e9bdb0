// What a simulation counts of one limit's holds: how many were opened, how they ended, and how far they were from what was
// used in the end.

import { MICROS_PER_SECOND } from "../../engine/base/units.ts";
import { HoldFound, Mode, Outcome, type Take } from "../../engine/domain/take.ts";
import { heldName } from "./call-text.ts";

/** Counts of one limit. Amounts are in the limit's unit. */
export class HoldTally {
  opened = 0;
  settled = 0;
  /** Settled holds that were larger than what was used: how many, and by how much in all. */
  under = 0;
  unused = 0;
  /** Settled holds that were smaller: how many, by how much in all, and by how much at most. */
  over = 0;
  exceeded = 0;
  exceededMax = 0;
  /** Settlements that found no hold, and what they charged. */
  late = 0;
  lateHits = 0;
  repeated = 0;
  /** Settlements of calls that these rules refused; they are not charged. */
  ofRefused = 0;
  expired = 0;
  /** When each live hold ends, by its name. Holds end in the order in which they were paid. */
  readonly #live = new Map<string, number>();
  #unnamed = 0;

  /** Counts a decided take of the limit. */
  count(take: Take, atUs: number, isOfRefused: boolean): void {
    this.#expire(atUs);
    if (take.mode === Mode.pay) this.#open(take, atUs);
    else if (take.mode === Mode.settle && take.outcome !== Outcome.unanswered) this.#settle(take, isOfRefused);
  }

  /** Holds that at that time are not settled and have not ended. */
  liveAt(atUs: number): number {
    this.#expire(atUs);
    return this.#live.size;
  }

  // Where holds are counted, a second hold under a known id gets no id.
  #open(take: Take, atUs: number): void {
    if (!take.paid || take.counted === 0) return;
    this.opened++;
    const named = heldName(take);
    const isNamed = take.holdId !== "" && !this.#live.has(named);
    const endsAtUs = atUs + take.limit.holdSeconds * MICROS_PER_SECOND;
    this.#live.set(isNamed ? named : `unnamed ${this.#unnamed++}`, endsAtUs);
  }

  #settle(take: Take, isOfRefused: boolean): void {
    const { cost, counted: held, limit } = take;
    if (isOfRefused) this.ofRefused++;
    else if (held === HoldFound.settled) this.repeated++;
    else if (held === HoldFound.none) {
      this.late++;
      if (!limit.isConcurrent) this.lateHits += cost;
    } else {
      this.settled++;
      this.#live.delete(heldName(take));
      if (cost < held) {
        this.under++;
        this.unused += held - cost;
      } else if (cost > held) {
        this.over++;
        this.exceeded += cost - held;
        this.exceededMax = Math.max(this.exceededMax, cost - held);
      }
    }
  }

  #expire(atUs: number): void {
    for (const [name, endsAtUs] of this.#live) {
      if (endsAtUs > atUs) return;
      this.#live.delete(name);
      this.expired++;
    }
  }
}
