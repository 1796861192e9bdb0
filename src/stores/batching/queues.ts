// What waits for a server, and what is under way to it, by queue (Batch.queue): batches of takes, and receipts of payments that are to be given
// back with the next call. Without queues all have the number 0.

import { Algorithm } from "../../engine/domain/limit.ts";
import { type TakeGroup, weightOf } from "../../engine/domain/take.ts";
import type { Batch, Receipt } from "./batch.ts";
import { RetryPause } from "./retry-pause.ts";

/** The batches for one server. Each queue has at most one that is still being filled. */
export class BatchQueues<B extends Batch> {
  /** Not sent yet, oldest first. */
  #waiting: B[] = [];
  readonly #filling = new Map<number, B>();
  /** Sent and without an outcome, unless all its callers were answered. The value: whether somebody waited when it was sent. */
  readonly #underWay = new Map<B, boolean>();
  /** Number of batches under way that somebody waits for, by queue. */
  readonly #counts = new Map<number, number>();
  #unawaited = 0;

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  /** The batch that the group can join; undefined if none of its queue has room. */
  batchFor(group: TakeGroup, queue: number): B | undefined {
    const batch = this.#filling.get(queue);
    return batch?.hasRoomFor(group) === true ? batch : undefined;
  }

  /** Whether a batch of this queue is being filled. */
  isFilling(queue: number): boolean {
    return this.#filling.has(queue);
  }

  /** Adds a batch; takes of its queue join it from now on. */
  add(batch: B): void {
    this.#waiting.push(batch);
    this.#filling.set(batch.queue, batch);
  }

  /** Removes and returns the oldest batch that `mayGo`. A batch is full if another one of its queue is being filled. */
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

  /** Number of this queue's batches under way that somebody waits for. */
  underWay(queue: number): number {
    return this.#counts.get(queue) ?? 0;
  }

  /** Number of batches under way that nobody waits for: receipts alone. */
  get unawaited(): number {
    return this.#unawaited;
  }

  /** Notes that the batch is sent. One that is sent again is under way once. */
  enter(batch: B): void {
    if (this.#underWay.has(batch)) return;
    const isAwaited = batch.waiting > 0;
    this.#underWay.set(batch, isAwaited);
    if (isAwaited) this.#counts.set(batch.queue, this.underWay(batch.queue) + 1);
    else this.#unawaited++;
  }

  /** Notes that the batch has its outcome, or that nobody waits for it any more. False if it was not under way. */
  leave(batch: B): boolean {
    const wasAwaited = this.#underWay.get(batch);
    if (wasAwaited === undefined) return false;
    this.#underWay.delete(batch);
    if (!wasAwaited) {
      this.#unawaited--;
      return true;
    }
    const left = this.underWay(batch.queue) - 1;
    if (left > 0) this.#counts.set(batch.queue, left);
    else this.#counts.delete(batch.queue);
    return true;
  }
}

/** Most waiting receipts. Beyond it the oldest are given up; their buckets have less room until they refill. */
const RECEIPTS_MAX = 10_000;
/** Longest wait of a receipt, in microseconds: ten minutes. Then it is given up. */
const WAIT_US_MAX = 600_000_000;
/** Greatest weight of the receipts of one call: 64 receipts, or 16 with holds, or five on sliding logs. */
const WEIGHT_PER_CALL_MAX = 64;

/**
 * Receipts in the order in which they came. Bounded in number and in time, because the store may be away for long. While the server refuses
 * them they wait, for growing pauses.
 */
export class Receipts {
  readonly #waiting = new Map<number, Receipt[]>();
  readonly #onDropped: (count: number) => void;
  readonly #onDue: () => void;
  readonly #pause = new RetryPause();
  #timer: NodeJS.Timeout | undefined;
  #count = 0;

  /** `onDropped` is told how many are given up; `onDue` is called when a pause is over. */
  constructor(onDropped: (count: number) => void, onDue: () => void) {
    this.#onDropped = onDropped;
    this.#onDue = onDue;
  }

  get isEmpty(): boolean {
    return this.#count === 0;
  }

  /** Whether the server has refused the last ones, so that all wait. */
  get isPaused(): boolean {
    return this.#timer !== undefined;
  }

  /** The queues with receipts, the one that has waited longest first. */
  queues(): IterableIterator<number> {
    return this.#waiting.keys();
  }

  add(receipt: Receipt, queue: number): void {
    const oldest = this.queues().next().value;
    if (this.#count >= RECEIPTS_MAX && oldest !== undefined) {
      this.#onDropped(this.#remove(oldest, RECEIPTS_MAX / 10).length);
    }
    const waiting = this.#waiting.get(queue);
    if (waiting === undefined) this.#waiting.set(queue, [receipt]);
    else waiting.push(receipt);
    this.#count++;
  }

  /** Takes back receipts that the server did not run, and begins a pause. */
  putBack(receipts: readonly Receipt[], queue: number): void {
    for (const receipt of receipts) this.add(receipt, queue);
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#onDue();
    }, this.#pause.next()).unref();
  }

  /** Notes that the server has given something back. */
  onGivenBack(): void {
    this.#pause.reset();
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
  end(): void {
    clearTimeout(this.#timer);
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
