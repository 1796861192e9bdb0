// Counts the calls under way, so that no more are sent than help.

import type { Batch } from "./batch.ts";

/** The sent batches; those that somebody waits for are counted by queue. */
export class UnderWay<B extends Batch> {
  /** Whether somebody waited for the batch when it was sent. */
  readonly #batches = new Map<B, boolean>();
  readonly #counts = new Map<number, number>();
  readonly #onRoom: () => void;

  /** `onRoom` is called when one batch less is under way. */
  constructor(onRoom: () => void) {
    this.#onRoom = onRoom;
  }

  /** Number of this queue's batches under way that somebody waits for. */
  count(queue: number): number {
    return this.#counts.get(queue) ?? 0;
  }

  /** A batch that is sent again is under way once. */
  enter(batch: B): void {
    if (this.#batches.has(batch)) return;
    const isAwaited = batch.waiting > 0;
    this.#batches.set(batch, isAwaited);
    if (isAwaited) this.#counts.set(batch.queue, this.count(batch.queue) + 1);
  }

  /** The batch has its outcome, or nobody waits for it any more. */
  leave(batch: B): void {
    const wasAwaited = this.#batches.get(batch);
    if (wasAwaited === undefined) return;
    this.#batches.delete(batch);
    if (wasAwaited) {
      const left = this.count(batch.queue) - 1;
      if (left > 0) this.#counts.set(batch.queue, left);
      else this.#counts.delete(batch.queue);
    }
    this.#onRoom();
  }
}
