// The batches that wait for a server, and those under way to it, by queue (Batch.queue). Without queues all have the
// number 0.

import type { TakeGroup } from "../../engine/domain/take.ts";
import type { Batch } from "./batch.ts";

/** The batches for one server. Each queue has at most one that is still being filled. */
export class BatchQueues<B extends Batch> {
  /** Not sent yet, oldest first. */
  #waiting: B[] = [];
  readonly #filling = new Map<number, B>();
  /** Sent and without an outcome, unless nobody waits for them any more. */
  readonly #underWay = new Set<B>();
  /** Their number by queue. */
  readonly #counts = new Map<number, number>();

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  /** The batch that the group can join; undefined if none of its queue has room. */
  batchFor(group: TakeGroup, queue: number): B | undefined {
    const batch = this.#filling.get(queue);
    return batch?.hasRoomFor(group) === true ? batch : undefined;
  }

  /** Adds a batch; takes of its queue join it from now on. */
  add(batch: B): void {
    this.#waiting.push(batch);
    this.#filling.set(batch.queue, batch);
  }

  /**
   * Removes and returns the oldest batch that `mayGo`. A batch is full if another batch of its queue is being filled.
   */
  shift(mayGo: (queue: number, isFull: boolean) => boolean): B | undefined {
    const batch = this.#waiting.find((one) => mayGo(one.queue, this.#filling.get(one.queue) !== one));
    if (batch !== undefined) this.remove(batch);
    return batch;
  }

  remove(batch: B): void {
    const at = this.#waiting.indexOf(batch);
    if (at < 0) return;
    this.#waiting.splice(at, 1);
    if (this.#filling.get(batch.queue) === batch) this.#filling.delete(batch.queue);
  }

  /** Removes and returns all batches that wait. */
  takeAll(): B[] {
    const batches = this.#waiting;
    this.#waiting = [];
    this.#filling.clear();
    return batches;
  }

  /** The batches that wait. */
  [Symbol.iterator](): Iterator<B> {
    return this.#waiting.values();
  }

  /** Number of this queue's batches under way. */
  underWay(queue: number): number {
    return this.#counts.get(queue) ?? 0;
  }

  /** Notes that the batch is sent. One that is sent again is under way once. */
  enter(batch: B): void {
    if (this.#underWay.has(batch)) return;
    this.#underWay.add(batch);
    this.#counts.set(batch.queue, this.underWay(batch.queue) + 1);
  }

  /** Notes that the batch has its outcome, or that nobody waits for it any more. False if it was not under way. */
  leave(batch: B): boolean {
    if (!this.#underWay.delete(batch)) return false;
    const left = this.underWay(batch.queue) - 1;
    if (left > 0) this.#counts.set(batch.queue, left);
    else this.#counts.delete(batch.queue);
    return true;
  }
}
