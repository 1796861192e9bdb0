// Payments that are to be given back with the next call to the store. Bounded in number and in time, because the store may be away for long;
// those that are given up are counted.

import { Algorithm, type Limit } from "../../engine/domain/limit.ts";
import { weightOf } from "../../engine/domain/take.ts";

/** A payment that is to be undone, in the window in which it was paid. */
export interface Receipt {
  readonly bucketKey: string;
  readonly limit: Limit;
  /** The cost that was paid, without capped hits; 1 to COST_ABOVE_ALL. */
  readonly cost: number;
  /** The store's time of the payment, in microseconds. */
  readonly paidAtUs: number;
  /** The hold that it opened, if any (Take.holdId). */
  readonly holdId: string;
  /** Since when it waits, in microseconds of this process's Clock. */
  readonly sinceUs: number;
}

/** Most waiting receipts. Beyond it the oldest are given up; their buckets have less room until they refill. */
const RECEIPTS_MAX = 10_000;
/** Longest wait of a receipt, in microseconds: ten minutes. Then it is given up. */
const WAIT_US_MAX = 600_000_000;
/** Greatest weight of the receipts of one call: 64 receipts, or 16 with holds, or five on sliding logs. */
const WEIGHT_PER_CALL_MAX = 64;

/** Receipts by queue, in the order in which they came. Without queues, all have queue 0. */
export class Receipts {
  readonly #waiting = new Map<number, Receipt[]>();
  readonly #onDropped: (count: number) => void;
  #count = 0;

  /** `onDropped` is told how many are given up. */
  constructor(onDropped: (count: number) => void) {
    this.#onDropped = onDropped;
  }

  get isEmpty(): boolean {
    return this.#count === 0;
  }

  /** The queues with receipts, the one that has waited longest first. */
  queues(): IterableIterator<number> {
    return this.#waiting.keys();
  }

  add(receipt: Receipt, queue = 0): void {
    const oldest = this.queues().next().value;
    if (this.#count >= RECEIPTS_MAX && oldest !== undefined) {
      this.#onDropped(this.#remove(oldest, RECEIPTS_MAX / 10).length);
    }
    const waiting = this.#waiting.get(queue);
    if (waiting === undefined) this.#waiting.set(queue, [receipt]);
    else waiting.push(receipt);
    this.#count++;
  }

  /** Moves as many of a queue's receipts to `into` as one call should carry; gives up those that have waited too long. */
  moveTo(into: Receipt[], queue: number, nowUs: number): void {
    if (this.#count === 0) return;
    let dropped = 0;
    for (const receipt of this.#remove(queue, this.#countForCall(queue))) {
      if (nowUs - receipt.sinceUs > WAIT_US_MAX) dropped++;
      else into.push(receipt);
    }
    if (dropped > 0) this.#onDropped(dropped);
  }

  /** Gives up all receipts. */
  dropAll(): void {
    const count = this.#count;
    this.drain(() => undefined);
    if (count > 0) this.#onDropped(count);
  }

  /** Passes all receipts to `each`, and keeps none. */
  drain(each: (receipt: Receipt, queue: number) => void): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    this.#count = 0;
    for (const [queue, receipts] of waiting) for (const receipt of receipts) each(receipt, queue);
  }

  #countForCall(queue: number): number {
    let count = 0;
    let weight = 0;
    for (const { limit } of this.#waiting.get(queue) ?? []) {
      weight += weightOf(1, limit.algorithm === Algorithm.slidingLog ? 1 : 0, limit.holdSeconds > 0 ? 1 : 0);
      if (weight > WEIGHT_PER_CALL_MAX) break;
      count++;
    }
    return count;
  }

  #remove(queue: number, countMax: number): Receipt[] {
    const waiting = this.#waiting.get(queue);
    if (waiting === undefined) return [];
    const removed = waiting.splice(0, countMax);
    this.#count -= removed.length;
    if (waiting.length === 0) this.#waiting.delete(queue);
    return removed;
  }
}
