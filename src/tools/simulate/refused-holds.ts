// A store for recorded calls. It may refuse a call that ran when it was recorded. The call's report at its end is then
// left out: a refused call reports nothing, and its use would be charged to callers who were let in.

import { Mode, type Take, type TakeGroup, Verdict } from "../../engine/domain/take.ts";
import { MemoryStore } from "../../stores/memory/memory-store.ts";
import { heldName } from "./call-text.ts";

/** Refused calls that are remembered, some 100 bytes each. With one more, all earlier ones are forgotten. */
const REFUSED_MAX = 500_000;

/** A memory store that leaves such reports out. */
export class RefusedHolds extends MemoryStore {
  /** Settlements of the last group that were left out. */
  readonly leftOut = new Set<Take>();
  readonly #refused = new Set<string>();

  override take(group: TakeGroup): boolean {
    this.leftOut.clear();
    if (group.takesWithHolds === 0) return super.take(group);
    const takes = group.takes.slice(0, group.size).filter(({ holdId }) => holdId !== "");
    const costs = new Map<Take, number>();
    for (const take of takes) {
      if (take.mode !== Mode.settle || !this.#refused.has(heldName(take))) continue;
      this.leftOut.add(take);
      costs.set(take, take.cost);
      take.cost = 0;
    }
    const isSettled = super.take(group);
    for (const [take, cost] of costs) take.cost = cost;
    for (const take of takes) {
      if (take.mode !== Mode.pay) continue;
      if (group.verdict === Verdict.refused) this.#note(heldName(take));
      else if (take.paid) this.#refused.delete(heldName(take));
    }
    return isSettled;
  }

  #note(name: string): void {
    if (this.#refused.size >= REFUSED_MAX) this.#refused.clear();
    this.#refused.add(name);
  }
}
