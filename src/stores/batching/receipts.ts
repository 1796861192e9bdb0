// What is to be given back, waiting for the next call to the store. Bounded, because the store may be away for long.

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

/** Receipts in the order they came, each hash slot's by themselves. Where there are no slots, all have slot 0. */
export class Receipts {
  readonly #waiting = new Map<number, Receipt[]>();
  #count = 0;

  get isEmpty(): boolean {
    return this.#count === 0;
  }

  /** The slot whose receipts have waited longest; undefined if none wait. */
  get oldestSlot(): number | undefined {
    return this.#waiting.keys().next().value;
  }

  add(receipt: Receipt, slot = 0): void {
    const oldest = this.oldestSlot;
    if (this.#count >= RECEIPTS_MAX && oldest !== undefined) this.#remove(oldest, RECEIPTS_MAX / 10);
    const waiting = this.#waiting.get(slot);
    if (waiting === undefined) this.#waiting.set(slot, [receipt]);
    else waiting.push(receipt);
    this.#count++;
  }

  /** Moves as many of a slot as one call should carry to `into`. */
  moveTo(into: Receipt[], slot = 0): void {
    if (this.#count === 0) return;
    for (const receipt of this.#remove(slot, RECEIPTS_PER_CALL)) into.push(receipt);
  }

  /** Hands all over and keeps none. */
  drain(each: (receipt: Receipt, slot: number) => void): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    this.#count = 0;
    for (const [slot, receipts] of waiting) for (const receipt of receipts) each(receipt, slot);
  }

  #remove(slot: number, countMax: number): Receipt[] {
    const waiting = this.#waiting.get(slot);
    if (waiting === undefined) return [];
    const removed = waiting.splice(0, countMax);
    this.#count -= removed.length;
    if (waiting.length === 0) this.#waiting.delete(slot);
    return removed;
  }
}
