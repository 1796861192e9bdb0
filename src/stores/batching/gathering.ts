// The batches that were not sent yet, oldest first. Each hash slot has at most one that still fills; where there are no
// slots, all takes have slot 0 and there is one.

import type { TakeGroup } from "../../core/take.ts";
import type { Batch } from "./batch.ts";

/** Holds batches until somebody sends them. */
export class Gathering<B extends Batch> {
  #batches: B[] = [];
  readonly #filling = new Map<number, B>();

  get isEmpty(): boolean {
    return this.#batches.length === 0;
  }

  /** The batch that the group can join, if one of its slot waits that has room. */
  batchFor(group: TakeGroup, slot: number): B | undefined {
    const batch = this.#filling.get(slot);
    return batch?.hasRoomFor(group) === true ? batch : undefined;
  }

  /** Adds a batch, which takes of its slot go into from now on. */
  begin(batch: B): void {
    this.#batches.push(batch);
    this.#filling.set(batch.slot, batch);
  }

  /** Removes the oldest batch whose slot has room on the way. */
  shift(hasRoom: (slot: number) => boolean): B | undefined {
    const batch = this.#batches.find(({ slot }) => hasRoom(slot));
    if (batch !== undefined) this.remove(batch);
    return batch;
  }

  /** Removes those that are full, and of those that still fill the ones whose slot has room on the way. */
  takeReady(hasRoom: (slot: number) => boolean): B[] {
    const ready: B[] = [];
    const held: B[] = [];
    for (const batch of this.#batches) {
      const isFilling = this.#filling.get(batch.slot) === batch;
      if (isFilling && !hasRoom(batch.slot)) held.push(batch);
      else {
        ready.push(batch);
        if (isFilling) this.#filling.delete(batch.slot);
      }
    }
    this.#batches = held;
    return ready;
  }

  /** Removes all. */
  takeAll(): B[] {
    const batches = this.#batches;
    this.#batches = [];
    this.#filling.clear();
    return batches;
  }

  remove(batch: B): void {
    const at = this.#batches.indexOf(batch);
    if (at < 0) return;
    this.#batches.splice(at, 1);
    this.#close(batch);
  }

  [Symbol.iterator](): Iterator<B> {
    return this.#batches.values();
  }

  #close(batch: B): void {
    if (this.#filling.get(batch.slot) === batch) this.#filling.delete(batch.slot);
  }
}
