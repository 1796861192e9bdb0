// The batches that were not sent yet, oldest first. Each lane has at most one that still fills; where there are no
// lanes, all takes have lane 0 and there is one.

import type { TakeGroup } from "../../core/take.ts";
import type { Batch } from "./batch.ts";

/** Holds batches until somebody sends them. */
export class WaitingBatches<B extends Batch> {
  #batches: B[] = [];
  readonly #filling = new Map<number, B>();

  get isEmpty(): boolean {
    return this.#batches.length === 0;
  }

  /** The batch that the group can join, if one of its lane waits that has room. */
  batchFor(group: TakeGroup, lane: number): B | undefined {
    const batch = this.#filling.get(lane);
    return batch?.hasRoomFor(group) === true ? batch : undefined;
  }

  /** True if a batch of that lane still fills. */
  has(lane: number): boolean {
    return this.#filling.has(lane);
  }

  /** Adds a batch, which takes of its lane go into from now on. */
  begin(batch: B): void {
    this.#batches.push(batch);
    this.#filling.set(batch.lane, batch);
  }

  /** Removes the oldest batch whose lane has room on the way. */
  shift(hasRoom: (lane: number) => boolean): B | undefined {
    const batch = this.#batches.find(({ lane }) => hasRoom(lane));
    if (batch !== undefined) this.remove(batch);
    return batch;
  }

  /** Removes those that are full, and of those that still fill the ones whose lane has room on the way. */
  takeReady(hasRoom: (lane: number) => boolean): B[] {
    const ready: B[] = [];
    const held: B[] = [];
    for (const batch of this.#batches) {
      const isFilling = this.#filling.get(batch.lane) === batch;
      if (isFilling && !hasRoom(batch.lane)) held.push(batch);
      else {
        ready.push(batch);
        if (isFilling) this.#filling.delete(batch.lane);
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
    if (this.#filling.get(batch.lane) === batch) this.#filling.delete(batch.lane);
  }
}
