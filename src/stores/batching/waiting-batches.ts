// The batches that have not been sent, oldest first. Each queue has at most one that is still being filled. Without queues, all takes have queue
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

  /** The batch that the group can join; undefined if none of its queue has room. */
  batchFor(group: TakeGroup, queue: number): B | undefined {
    const batch = this.#filling.get(queue);
    return batch?.hasRoomFor(group) === true ? batch : undefined;
  }

  /** Whether a batch of this queue is being filled. */
  has(queue: number): boolean {
    return this.#filling.has(queue);
  }

  /** Adds a batch; takes of its queue join it from now on. */
  begin(batch: B): void {
    this.#batches.push(batch);
    this.#filling.set(batch.queue, batch);
  }

  /** Removes and returns the oldest batch whose queue `hasRoom`. */
  shift(hasRoom: (queue: number) => boolean): B | undefined {
    const batch = this.#batches.find(({ queue }) => hasRoom(queue));
    if (batch !== undefined) this.remove(batch);
    return batch;
  }

  /** Removes and returns all full batches, and of those being filled the ones whose queue `hasRoom`. */
  takeReady(hasRoom: (queue: number) => boolean): B[] {
    const ready: B[] = [];
    const held: B[] = [];
    for (const batch of this.#batches) {
      const isFilling = this.#filling.get(batch.queue) === batch;
      if (isFilling && !hasRoom(batch.queue)) held.push(batch);
      else {
        ready.push(batch);
        if (isFilling) this.#filling.delete(batch.queue);
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
    if (this.#filling.get(batch.queue) === batch) this.#filling.delete(batch.queue);
  }
}
