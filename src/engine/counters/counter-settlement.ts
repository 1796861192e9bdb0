// Charges counters in this process: in memory, and on rows that PostgreSQL has locked. lua/counters.lua does the same
// in Redis. A group of counters has nothing else in it, and its modes say what becomes of each:
//
//   postPaid   charged in any case
//   pay        charged unless another counter of the group is over; then only counters that are over are charged
//   peek       compared, never charged
//   refund     given back, after all charges; a count does not fall below 0
//
// A counter is over if its count after the take is above the limit. The key names the window, so a count lasts as long
// as its record.

import { NO_SHIFT } from "../../base/clock.ts";
import { fixedWindow } from "../algorithms/fixed-window.ts";
import { type BucketAccess, WorkingBucket, windowUsOf } from "../algorithms/working-bucket.ts";
import { Algorithm } from "../domain/limit.ts";
import { Mode, Outcome, Source, type Take, type TakeGroup, Verdict } from "../domain/take.ts";
import { isGroupRefused } from "../domain/verdict.ts";

/** Decides groups of counters synchronously. */
export class CounterSettlement {
  readonly #access: BucketAccess;
  /** Pooled. The first `size` belong to the group. */
  readonly #counts: WorkingBucket[] = [];
  #size = 0;

  constructor(access: BucketAccess) {
    this.#access = access;
  }

  /** Writes the answer of each take and the group's verdict, and saves what changed. */
  settle(group: TakeGroup, nowUs: number): void {
    this.#size = 0;
    const hasOver = this.#isAnyOver(group, nowUs);
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      const count = this.#open(take, nowUs);
      const isCharged = take.mode === Mode.postPaid || (take.mode === Mode.pay && (!hasOver || exceeds(count, take)));
      if (isCharged) count.state.used += take.cost;
      answerCount(take, count.state.used);
    }
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.mode !== Mode.refund) continue;
      const { state } = this.#open(take, nowUs);
      state.used = Math.max(0, state.used - take.cost);
    }
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.mode === Mode.refund) answerCount(take, this.#open(take, nowUs).state.used);
    }
    this.#save(nowUs);
    group.verdict = isGroupRefused(group) ? Verdict.refused : Verdict.allowed;
    group.source = Source.store;
  }

  /** Each is compared as it was before the call, even where two share a key. */
  #isAnyOver(group: TakeGroup, nowUs: number): boolean {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.mode === Mode.pay && exceeds(this.#open(take, nowUs), take)) return true;
    }
    return false;
  }

  #open(take: Take, nowUs: number): WorkingBucket {
    take.needKeyBytes();
    for (let i = 0; i < this.#size; i++) {
      const known = this.#counts[i] as WorkingBucket;
      if (!known.hasKeyOf(take)) continue;
      known.lifetimeUs = Math.max(known.lifetimeUs, windowUsOf(take.limit));
      return known;
    }
    const count = this.#next();
    count.useKeyOf(take);
    count.algorithm = Algorithm.fixedWindow;
    count.limit = take.limit;
    count.lifetimeUs = windowUsOf(take.limit);
    count.place = -1;
    if (!this.#access.load(count)) fixedWindow.clear(count.state, take.limit, nowUs);
    count.markOpened();
    return count;
  }

  #next(): WorkingBucket {
    let count = this.#counts[this.#size];
    if (count === undefined) {
      count = new WorkingBucket(fixedWindow);
      count.state.shift = this.#access.shift ?? NO_SHIFT;
      this.#counts.push(count);
    }
    this.#size++;
    return count;
  }

  #save(nowUs: number): void {
    for (let i = 0; i < this.#size; i++) {
      const count = this.#counts[i] as WorkingBucket;
      if (!count.hasChanged) continue;
      if (count.state.used === 0) this.#access.remove(count);
      else this.#access.save(count, nowUs + count.lifetimeUs);
    }
  }
}

/** Whether the count was above the limit with this take's cost, when the group came to it. */
function exceeds(count: WorkingBucket, take: Take): boolean {
  return count.openedUsed + take.cost > take.limit.amount;
}

/** Writes what a counter that stands at `count` answers. */
function answerCount(take: Take, count: number): void {
  take.count = count;
  take.outcome = count > take.limit.amount && take.mode !== Mode.refund ? Outcome.over : Outcome.room;
  take.remaining = Math.max(0, take.limit.amount - count);
}
