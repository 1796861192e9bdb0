// The batches that have not been sent, oldest first. Each lane has at most one that is still being filled. Without lanes, all takes have lane
// 0.

import type { TakeGroup } from "../../engine/domain/take.ts";
import type { Batch } from "./batch.ts";

/** Keeps batches until they are sent. */
export class WaitingBatches<B extends Batch> {
  #batches: B[] = [];
  readonly #filling = new Map<number, B>();

  get isEmpty(): boolean {
    return this.#batches.length === 0;
  }

  /** The batch that the group can join; undefined if none of its lane has room. */
  batchFor(group: TakeGroup, lane: number): B | undefined {
    const batch = this.#filling.get(lane);
    return batch?.hasRoomFor(group) === true ? batch : undefined;
  }

  /** Whether a batch of this lane is being filled. */
  has(lane: number): boolean {
    return this.#filling.has(lane);
  }

  /** Adds a batch; takes of its lane join it from now on. */
  begin(batch: B): void {
    this.#batches.push(batch);
    this.#filling.set(batch.lane, batch);
  }

  /** Removes and returns the oldest batch whose lane `hasRoom`. */
  shift(hasRoom: (lane: number) => boolean): B | undefined {
    const batch = this.#batches.find(({ lane }) => hasRoom(lane));
    if (batch !== undefined) this.remove(batch);
    return batch;
  }

  /** Removes and returns all full batches, and of those being filled the ones whose lane `hasRoom`. */
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

  /** Removes and returns all batches. */
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
