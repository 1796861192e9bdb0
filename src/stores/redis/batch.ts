// The groups that travel in one script call: how many fit, which script serves them, and the script's arguments. lua/take_all.lua explains
// the arguments.

import { MICROS_PER_SECOND } from "../../engine/base/units.ts";
import { Algorithm, COUNTER_NUMBER } from "../../engine/domain/limit.ts";
import { Mode, type TakeGroup, weightOf } from "../../engine/domain/take.ts";
import { Batch, type BatchedHold, HEAD_NUMBERS, type ServerTimes, TAKE_NUMBERS } from "../batching/batch.ts";
import type { ClusterTags } from "./cluster-tags.ts";
import { packNumbers } from "./packed-numbers.ts";

/**
 * Bounds of one call, so that Redis is blocked for about a millisecond at most. A larger group travels alone, without receipts: two
 * milliseconds (GROUP_WEIGHT_MAX).
 */
export const BATCH_WEIGHT_MAX = 128;
export const BATCH_BYTES_MAX = 16_384;
/** Numbers of a receipt in the script's arguments. */
const RECEIPT_NUMBERS = 4;
/** Upper estimate of a take's numbers in the arguments, in bytes. */
const TAKE_BYTES = 48;

/** Groups and receipts for one script call. They are encoded anew each time the call is sent. */
export class RedisBatch extends Batch {
  /** How often a node has answered it with CLUSTERDOWN. */
  clusterDowns = 0;
  readonly #tags: ClusterTags | undefined;

  /** `tags` only for a cluster. */
  constructor(queue = 0, tags?: ClusterTags) {
    super(queue);
    this.#tags = tags;
  }

  /** Number of different buckets that it names, however many keys they have. */
  get bucketCount(): number {
    const keys = new Set(this.receipts.map(({ bucketKey }) => bucketKey));
    for (const { at, size } of this.groups) {
      for (let i = 0; i < size; i++) keys.add(this.keyAt(this.numbers[at + HEAD_NUMBERS + i * TAKE_NUMBERS] ?? 0));
    }
    return keys.size;
  }

  hasRoomFor(group: TakeGroup): boolean {
    if (this.groups.length === 0) return true;
    // Some of the group's keys may be in the batch already; to count them again costs less than to look for them.
    let bytes = this.keyBytes + (this.takes + group.size) * TAKE_BYTES;
    for (let i = 0; i < group.size; i++) bytes += group.takes[i]?.bucketKey.length ?? 0;
    return this.#weight + group.weight <= BATCH_WEIGHT_MAX && bytes <= BATCH_BYTES_MAX;
  }

  override get carriesReceipts(): boolean {
    return this.#weight <= BATCH_WEIGHT_MAX;
  }

  get #weight(): number {
    return weightOf(this.takes, this.takesOnLogs, this.holds.length);
  }

  /** Whether lua/take_each.lua can serve it; that file states the conditions. */
  isOfPlainTakes(): boolean {
    const { groups, keys, numbers, limits } = this;
    if (this.takes !== groups.length || keys.length !== groups.length || this.receipts.length > 0) return false;
    if (this.holds.length > 0) return false;
    for (let at = HEAD_NUMBERS; at < numbers.length; at += HEAD_NUMBERS + TAKE_NUMBERS) {
      if ((numbers[at + 4] ?? Mode.charge) > Mode.peek) return false;
    }
    for (const { isCounter, algorithm } of limits) {
      if (isCounter || algorithm === Algorithm.slidingLog) return false;
    }
    return true;
  }

  /**
   * The script's arguments as one-byte text, from the number of keys on. `timeUs` is the time in microseconds since the epoch, 0 for the
   * server's own. Counters live up to `jitterSecondsMax` longer than their window.
   */
  encode(timeUs: number, { latestOf, bucketTimeUs }: ServerTimes, jitterSecondsMax = 0): string[] {
    this.writeLatest(latestOf);
    const receipts: number[] = [];
    for (const { bucketKey, limit, cost, paidAtUs } of this.receipts) {
      receipts.push(this.placeOfKey(bucketKey), this.placeOfLimit(limit), cost, paidAtUs);
    }
    const limits: number[] = [];
    for (const limit of this.limits) {
      const { algorithm, amount, burst, windowSeconds, debtMax, isCounter, calendar } = limit;
      if (calendar !== undefined) {
        calendar.turnTo(bucketTimeUs());
        limits.push(algorithm, amount, calendar.startUs, calendar.endUs, calendar.nextEndUs);
        continue;
      }
      const lifetimeSeconds = windowSeconds + Math.floor(Math.random() * jitterSecondsMax);
      limits.push(
        isCounter ? COUNTER_NUMBER : algorithm,
        amount,
        burst,
        windowSeconds,
        isCounter ? lifetimeSeconds : debtMax,
      );
    }
    const holds = this.#holdNumbers();
    const packed = [[timeUs], limits, receipts, this.numbers, ...(holds.length > 0 ? [holds] : [])].map(packNumbers);
    return [String(this.keys.length), ...this.#storedKeys(), ...packed];
  }

  // The numbers that lua/holds.lua reads. Holds of receipts have negative indices, counted over the receipts' numbers.
  #holdNumbers(): number[] {
    const numbers: number[] = [];
    const add = (at: number, { bucketKey, limit, holdId }: Omit<BatchedHold, "at" | "stats">) => {
      const us = limit.holdSeconds * MICROS_PER_SECOND;
      const own = holdId === "" ? 0 : this.placeOfKey(`${bucketKey}|hold|${holdId}`);
      const set = this.placeOfKey(`${bucketKey}|holds`);
      const hasLows = limit.algorithm === Algorithm.tokenBucket && !limit.isConcurrent;
      const lows = hasLows ? this.placeOfKey(`${bucketKey}|lows`) : 0;
      numbers.push(at, this.placeOfKey(bucketKey), set, lows, own, limit.isConcurrent ? -us : us);
    };
    for (const hold of this.holds) add(hold.at + 1, hold);
    for (const [i, receipt] of this.receipts.entries()) {
      if (receipt.limit.holdSeconds > 0) add(-(i * RECEIPT_NUMBERS + 1), receipt);
    }
    return numbers;
  }

  #storedKeys(): readonly string[] {
    const tags = this.#tags;
    return tags === undefined ? this.keys : this.keys.map((key) => tags.storedKey(key, this.queue));
  }
}
