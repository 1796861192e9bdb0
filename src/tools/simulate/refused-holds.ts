// A store for recorded calls. It may refuse a call that ran when it was recorded. The call's report at its end is then left out:
// a refused call reports nothing, and its use would be charged to callers who were let in.

import { Mode, type Take, type TakeGroup, Verdict } from "../../engine/domain/take.ts";
import { MemoryStore } from "../../stores/memory/memory-store.ts";
import { heldName } from "./call-text.ts";

/** Refused calls of one generation, some 100 bytes each. There are two; the older one is dropped when the younger is full. */
const REFUSED_MAX = 250_000;

/** A memory store that leaves such reports out. */
export class RefusedHolds extends MemoryStore {
  /** Settlements of the last group that were left out. */
  readonly leftOut = new Set<Take>();
  #refused = new Set<string>();
  #refusedBefore = new Set<string>();

  override take(group: TakeGroup): boolean {
    this.leftOut.clear();
    if (group.takesWithHolds === 0) return super.take(group);
    const takes = group.takes.slice(0, group.size).filter(({ holdId }) => holdId !== "");
    const costs = new Map<Take, number>();
    for (const take of takes) {
      if (take.mode !== Mode.settle || !this.#isRefused(heldName(take))) continue;
      this.leftOut.add(take);
      costs.set(take, take.cost);
      take.cost = 0;
    }
    const isSettled = super.take(group);
    for (const [take, cost] of costs) take.cost = cost;
    for (const take of takes) {
      if (take.mode !== Mode.pay) continue;
      if (group.verdict === Verdict.refused) this.#note(heldName(take));
      else if (take.paid) this.#forget(heldName(take));
    }
    return isSettled;
  }

  #isRefused(name: string): boolean {
    return this.#refused.has(name) || this.#refusedBefore.has(name);
  }

  #note(name: string): void {
    if (this.#refused.size >= REFUSED_MAX) {
      this.#refusedBefore = this.#refused;
      this.#refused = new Set();
    }
    this.#refused.add(name);
  }

  #forget(name: string): void {
    this.#refused.delete(name);
    this.#refusedBefore.delete(name);
  }
}
