// Finds how large a burst would have had to be. A twin of each limit has the same algorithm and refuses nobody; every
// take is settled on it, too, so every call pays every limit. The most that a bucket of the twin ever holds is the
// answer.

import type { Clock } from "../../base/clock.ts";
import { getOrInsert } from "../../base/get-or-insert.ts";
import { AMOUNT_MAX } from "../../base/units.ts";
import { Algorithm, type Limit } from "../../engine/domain/limit.ts";
import { LimitStats } from "../../engine/domain/stats.ts";
import { Kind, Mode, Outcome, type Take, TakeGroup } from "../../engine/domain/take.ts";
import { MemoryStore, type MemoryStoreOptions } from "../../stores/memory/memory-store.ts";

/** Measures what limits would have needed. */
export class NeededBursts {
  readonly #store: MemoryStore;
  readonly #group = new TakeGroup();
  readonly #twins = new WeakMap<Limit, Limit>();

  constructor(clock: Clock, options: Omit<MemoryStoreOptions, "clock" | "observer">) {
    this.#store = new MemoryStore({ ...options, clock });
  }

  /**
   * Settles the takes of a call on the twins. For each take `onNeed` gets what its bucket holds, including the take's
   * cost: the limit's burst would have to be at least that.
   */
  settle(takes: TakeGroup, onNeed: (take: Take, needed: number) => void): void {
    for (let i = 0; i < takes.size; i++) {
      const take = takes.takes[i] as Take;
      if (take.limit.isCounter) {
        if (take.mode !== Mode.refund) onNeed(take, take.count);
      }
      // A refusal of a blocked caller has no bucket, and a guarantee refuses nobody.
      else if (take.mode < Mode.blocked && take.mode !== Mode.refund) this.#settleOne(take, onNeed);
    }
    // As in a store, what a call gives back serves none of its own takes.
    for (let i = 0; i < takes.size; i++) {
      const take = takes.takes[i] as Take;
      if (take.mode === Mode.refund && !take.limit.isCounter) this.#settleOne(take, onNeed);
    }
  }

  // Each take has its own group, so that it sees only the takes before it.
  #settleOne(take: Take, onNeed: (take: Take, needed: number) => void): void {
    const group = this.#group;
    group.reset();
    const twin = group.add(getOrInsert(this.#twins, take.limit, () => twinOf(take.limit)));
    twin.useKeyOf(take);
    twin.kind = Kind.shadow;
    twin.mode = take.mode;
    twin.cost = take.cost;
    twin.holdId = take.holdId;
    this.#store.take(group);
    if (take.mode !== Mode.pay && take.mode !== Mode.peek) return;
    if (twin.outcome === Outcome.room) onNeed(take, AMOUNT_MAX - twin.remaining + (twin.paid ? 0 : take.cost));
    else if (twin.outcome !== Outcome.unanswered) onNeed(take, Number.POSITIVE_INFINITY);
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}

/** The limit at its own rate (of windows: over its own window) with the largest possible burst. */
function twinOf(limit: Limit): Limit {
  const isBucket = limit.algorithm === Algorithm.tokenBucket;
  return {
    ...limit,
    amount: isBucket ? limit.amount : AMOUNT_MAX,
    burst: AMOUNT_MAX,
    debtMax: AMOUNT_MAX,
    stats: new LimitStats(),
  };
}
