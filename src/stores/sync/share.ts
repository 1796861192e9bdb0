// sync: share. Each process counts its own part of the limit in its own memory, and asks nobody.

import { type Limit, partOfLimit } from "../../engine/domain/limit.ts";
import { copyAnswer, Mode, Outcome, type Take, TakeGroup } from "../../engine/domain/take.ts";
import { NOBODY, type Store } from "../store.ts";
import { addTake, type SyncStrategy } from "./sync-strategy.ts";

interface ShareOptions {
  /** Keeps this process's buckets; it must settle every take before it returns. */
  readonly memory: Store;
  readonly processCount: () => number;
  /** This process's place among all processes, from 0; -1 while it is unknown. */
  readonly processIndex: () => number;
}

/**
 * Each of N processes grants floor(limit / N), the first one the remainder too, and none less than 1: together at most max(limit, N), in burst
 * and in rate. Until all other processes have counted a process, it asks the shared store, whose bucket is separate. So while processes come
 * and go, all together grant at most twice that, plus a part for each process that comes or goes (test/property/share.test.ts). When a process
 * ends, its counts are lost.
 */
export class Share implements SyncStrategy {
  readonly #memory: Store;
  readonly #processCount: () => number;
  readonly #processIndex: () => number;
  readonly #one = new TakeGroup();
  readonly #parts = new WeakMap<Limit, { count: number; index: number; limit: Limit }>();

  constructor({ memory, processCount, processIndex }: ShareOptions) {
    this.#memory = memory;
    this.#processCount = processCount;
    this.#processIndex = processIndex;
  }

  take(take: Take): boolean {
    const limit = this.#partOf(take.limit);
    if (limit === undefined) return false;
    if (take.mode === Mode.refund) {
      take.outcome = Outcome.room;
      take.waitUs = 0;
    } else {
      const asked = this.#ask(take, limit, take.mode);
      // The memory has no room for the payment of a sliding log, so the shared store counts it.
      if (asked.outcome === Outcome.unanswered) return false;
      copyAnswer(asked, take);
    }
    return true;
  }

  conclude(take: Take): void {
    const limit = this.#partOf(take.limit);
    if (limit === undefined) return;
    const asked = this.#ask(take, limit, take.mode === Mode.refund ? Mode.refund : Mode.peek);
    take.remaining = asked.remaining;
    take.resetUs = asked.resetUs;
    if (take.mode !== Mode.refund) return;
    take.paid = asked.paid;
    take.paidAtUs = asked.paidAtUs;
  }

  giveBack(take: Take): boolean {
    const limit = this.#partOf(take.limit);
    if (limit === undefined) return false;
    copyAnswer(take, this.#question(take, limit, take.mode));
    this.#memory.giveBack(this.#one);
    return true;
  }

  close(): void {
    void this.#memory.close();
  }

  #ask(take: Take, limit: Limit, mode: Mode): Take {
    const asked = this.#question(take, limit, mode);
    this.#memory.take(this.#one, NOBODY);
    return asked;
  }

  #question(take: Take, limit: Limit, mode: Mode): Take {
    this.#one.reset();
    return addTake(this.#one, take, limit, mode, take.cost);
  }

  #partOf(limit: Limit): Limit | undefined {
    const count = this.#processCount();
    const index = this.#processIndex();
    if (index < 0) return undefined;
    const kept = this.#parts.get(limit);
    if (kept !== undefined && kept.count === count && kept.index === index) return kept.limit;
    const part = partOfLimit(limit, count, index);
    this.#parts.set(limit, { count, index, limit: part });
    return part;
  }
}
