// What is to be given back, waiting for the next call to Redis. Bounded, because Redis may be away for long.

import type { Limit } from "../../core/limit.ts";

/** A payment that is to be undone in the window it was paid in. */
export interface Receipt {
  readonly bucketKey: string;
  readonly limit: Limit;
  /** What was paid, without capped hits; 1 to COST_ABOVE_ALL. */
  readonly cost: number;
  /** The store's time of payment, in microseconds. */
  readonly paidAtUs: number;
}

/** More than this wait for no store: the oldest go, and their buckets stay a little emptier until they refill. */
const RECEIPTS_MAX = 10_000;
const RECEIPTS_PER_CALL = 64;

/** Receipts in the order they came. */
export class Receipts {
  #waiting: Receipt[] = [];

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  add(receipt: Receipt): void {
    if (this.#waiting.length >= RECEIPTS_MAX) this.#waiting.splice(0, RECEIPTS_MAX / 10);
    this.#waiting.push(receipt);
  }

  /** Moves as many as one call should carry to `into`. */
  moveTo(into: Receipt[]): void {
    if (this.#waiting.length === 0) return;
    for (const receipt of this.#waiting.splice(0, RECEIPTS_PER_CALL)) into.push(receipt);
  }
}
