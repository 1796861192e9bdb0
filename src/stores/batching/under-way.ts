// Counts the calls under way, so that no more are sent than help.

import type { Batch } from "./batch.ts";

/** The sent batches that somebody waits for, counted by lane. */
export class UnderWay<B extends Batch> {
  readonly #batches = new Set<B>();
  readonly #counts = new Map<number, number>();
  readonly #onRoom: () => void;

  /** `onRoom` is called when a lane has one batch less under way. */
  constructor(onRoom: () => void) {
    this.#onRoom = onRoom;
  }

  /** Number of this lane's batches under way. */
  count(lane: number): number {
    return this.#counts.get(lane) ?? 0;
  }

  /** A batch that is sent again is under way once. */
  enter(batch: B): void {
    if (this.#batches.has(batch)) return;
    this.#batches.add(batch);
    this.#counts.set(batch.lane, this.count(batch.lane) + 1);
  }

  /** The batch has its outcome, or nobody waits for it any more. */
  leave(batch: B): void {
    if (!this.#batches.delete(batch)) return;
    const left = this.count(batch.lane) - 1;
    if (left > 0) this.#counts.set(batch.lane, left);
    else this.#counts.delete(batch.lane);
    this.#onRoom();
  }
}
