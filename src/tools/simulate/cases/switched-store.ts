// A memory store that can be away: then it does not answer, and each limit's on_store_failure decides.

import { StoreError } from "../../../engine/base/errors.ts";
import { Outcome, type Take, type TakeGroup, Verdict } from "../../../engine/domain/take.ts";
import type { MemoryStore } from "../../../stores/memory/memory-store.ts";
import type { Store } from "../../../stores/store.ts";

const AWAY = new StoreError("STORE_UNREACHABLE", "the case says that the store is away");

/** Settles in memory while it is there. */
export class SwitchedStore implements Store {
  isAway = false;
  readonly #memory: MemoryStore;

  constructor(memory: MemoryStore) {
    this.#memory = memory;
  }

  take(group: TakeGroup): boolean {
    if (!this.isAway) return this.#memory.take(group);
    for (let i = 0; i < group.size; i++) (group.takes[i] as Take).outcome = Outcome.unanswered;
    group.verdict = Verdict.failed;
    group.failure = AWAY;
    return true;
  }

  giveBack(group: TakeGroup): void {
    if (!this.isAway) this.#memory.giveBack(group);
  }

  close(): Promise<void> {
    return this.#memory.close();
  }
}
