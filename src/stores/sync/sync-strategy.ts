// A way of counting a shared limit in memory: lease, periodic or share. sync-store.ts settles calls with it; each strategy states its bound in
// its own file. Everything here is synchronous.

import type { Limit } from "../../engine/domain/limit.ts";
import { Kind, Mode, type Take, TakeGroup } from "../../engine/domain/take.ts";
import type { LastAnswer } from "../last-answer.ts";
import type { BucketMemory, Store } from "../store.ts";

/** Counts the limits with one value of `sync`. No method throws or waits. */
export interface SyncStrategy extends Partial<BucketMemory> {
  /** Interval of `maintain`, in milliseconds. */
  readonly maintenanceMs?: number;
  /**
   * Judges a take in memory, pays it if there is room, and writes its answer. Returns false, and writes nothing, if the shared store has to
   * answer. Refunds are only judged here; `conclude` applies them.
   */
  take(take: Take, nowUs: number): boolean;
  /** Ends a take that was judged here: applies a refund, and writes the bucket's present state. */
  conclude(take: Take, nowUs: number): void;
  /** Notes a take that goes to the shared store to pay. */
  asks?(take: Take, nowUs: number): void;
  /** Called when such a take is on its way, and may ask the store for more: that travels behind it, mostly in the same batch. */
  prefetch?(take: Take, nowUs: number): void;
  /** Takes the shared store's answer to a take that was sent at `sentUs`. `take` is undefined if the store failed or was not asked. */
  learn?(asked: Take, take: Take | undefined, sentUs: number, nowUs: number): void;
  /** Gives a paid take back; does not change its answer. False if the shared store was paid and has to be told. */
  giveBack(take: Take, nowUs: number): boolean;
  /** Does housekeeping: gives back, reports. */
  maintain?(nowUs: number): void;
  /** Gives back and reports, before the process ends, what others should know. */
  close(nowUs: number): void;
}

/** A bucket, and its state by the shared store's last answer. */
export class LocalBucket implements LastAnswer {
  readonly bucketKey: string;
  readonly keyHash: number;
  limit: Limit;
  remaining = 0;
  resetAtUs = 0;

  constructor(take: Take) {
    this.bucketKey = take.bucketKey;
    this.keyHash = take.keyHash;
    this.limit = take.limit;
  }
}

/** What identifies a bucket. */
type NamedBucket = Pick<Take, "bucketKey" | "keyHash">;

/** Adds a take on the bucket that no request has: a descriptor of its own. */
export function addTake(group: TakeGroup, bucket: NamedBucket, limit: Limit, mode: Mode, cost: number): Take {
  const take = group.add(limit);
  take.bucketKey = bucket.bucketKey;
  take.keyHash = bucket.keyHash;
  take.descriptor = group.size;
  take.kind = Kind.ordinary;
  take.mode = mode;
  take.cost = cost;
  return take;
}

const returned = new TakeGroup();

/** Gives a part of one payment back. */
export function giveBack(store: Store, bucket: NamedBucket, limit: Limit, cost: number, paidAtUs: number): void {
  returned.reset();
  Object.assign(addTake(returned, bucket, limit, Mode.pay, cost), { paid: true, paidAtUs });
  store.giveBack(returned);
}
