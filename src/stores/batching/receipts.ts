// What is to be given back, waiting for the next call to the store. Bounded in number and in time, because the store may be
// away for long; what that costs is counted.

import { Algorithm, type Limit } from "../../core/limit.ts";
import { weightOf } from "../../core/take.ts";

/** A payment that is to be undone in the window it was paid in. */
export interface Receipt {
  readonly bucketKey: string;
  readonly limit: Limit;
  /** What was paid, without capped hits; 1 to COST_ABOVE_ALL. */
  readonly cost: number;
  /** The store's time of payment, in microseconds. */
  readonly paidAtUs: number;
  /** The hold that it was to open (Take.holdId). */
  readonly holdId: string;
  /** Since when it waits, in microseconds of this process's Clock. */
  readonly sinceUs: number;
}

/** Most receipts that wait. Beyond it the oldest go, and their buckets stay a little emptier until they refill. */
const RECEIPTS_MAX = 10_000;
/** Longest wait of a receipt, in microseconds: ten minutes. Then it goes, too. */
const WAIT_US_MAX = 600_000_000;
/** What those of one call weigh together: 64 receipts, or 16 with holds, or two on sliding logs. */
const WEIGHT_PER_CALL_MAX = 64;

/** Receipts in the order they came, each lane's by themselves. Where there are no lanes, all have lane 0. */
export class Receipts {
  readonly #waiting = new Map<number, Receipt[]>();
  readonly #onDropped: (count: number) => void;
  #count = 0;

  /** `onDropped` hears how many are given up. */
  constructor(onDropped: (count: number) => void) {
    this.#onDropped = onDropped;
  }

  get isEmpty(): boolean {
    return this.#count === 0;
  }

  /** The lane whose receipts have waited longest; undefined if none wait. */
  get oldestLane(): number | undefined {
    return this.#waiting.keys().next().value;
  }

  add(receipt: Receipt, lane = 0): void {
    const oldest = this.oldestLane;
    if (this.#count >= RECEIPTS_MAX && oldest !== undefined) {
      this.#onDropped(this.#remove(oldest, RECEIPTS_MAX / 10).length);
    }
    const waiting = this.#waiting.get(lane);
    if (waiting === undefined) this.#waiting.set(lane, [receipt]);
    else waiting.push(receipt);
    this.#count++;
  }

  /** Moves as many of a lane as one call should carry to `into`; gives up those that have waited for too long. */
  moveTo(into: Receipt[], lane: number, nowUs: number): void {
    if (this.#count === 0) return;
    let dropped = 0;
    for (const receipt of this.#remove(lane, this.#countForCall(lane))) {
      if (nowUs - receipt.sinceUs > WAIT_US_MAX) dropped++;
      else into.push(receipt);
    }
    if (dropped > 0) this.#onDropped(dropped);
  }

  /** Gives all up. */
  dropAll(): void {
    const count = this.#count;
    this.drain(() => undefined);
    if (count > 0) this.#onDropped(count);
  }

  /** Hands all over and keeps none. */
  drain(each: (receipt: Receipt, lane: number) => void): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    this.#count = 0;
    for (const [lane, receipts] of waiting) for (const receipt of receipts) each(receipt, lane);
  }

  #countForCall(lane: number): number {
    let count = 0;
    let weight = 0;
    for (const { limit } of this.#waiting.get(lane) ?? []) {
      weight += weightOf(1, limit.algorithm === Algorithm.slidingLog ? 1 : 0, limit.holdSeconds > 0 ? 1 : 0);
      if (weight > WEIGHT_PER_CALL_MAX) break;
      count++;
    }
    return count;
  }

  #remove(lane: number, countMax: number): Receipt[] {
    const waiting = this.#waiting.get(lane);
    if (waiting === undefined) return [];
    const removed = waiting.splice(0, countMax);
    this.#count -= removed.length;
    if (waiting.length === 0) this.#waiting.delete(lane);
    return removed;
  }
}
