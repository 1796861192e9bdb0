// A way of counting a shared limit in memory: lease, periodic or share. sync-store.ts settles calls with it; each strategy states its bound in
// its own file. Everything here is synchronous.

import type { Limit } from "../../engine/domain/limit.ts";
import { Mode, type Take, type TakeGroup } from "../../engine/domain/take.ts";
import type { LastAnswer } from "../last-answer.ts";
import type { BucketMemory } from "../store.ts";

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
  /**
   * Notes a take that goes to the shared store to pay. Returns the number of tokens to ask for beside it; 0 for none, as always if the call
   * has no room for more.
   */
  prefetch?(take: Take, nowUs: number, hasRoom: boolean): number;
  /**
   * Takes the shared store's answer to a take, and to the prefetch beside it, which were sent at `sentUs`. `take` is undefined if the store
   * failed or was not asked.
   */
  learn?(asked: Take, take: Take | undefined, prefetched: Take | undefined, sentUs: number, nowUs: number): void;
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
export type NamedBucket = Pick<Take, "bucketKey" | "keyHash">;

/** Fills the group with the receipt of one payment, for Store.giveBack. */
export function fillReceipt(
  group: TakeGroup,
  { bucketKey, keyHash }: NamedBucket,
  limit: Limit,
  { cost, paidAtUs }: { readonly cost: number; readonly paidAtUs: number },
): void {
  group.reset();
  const take = group.add(limit);
  take.bucketKey = bucketKey;
  take.keyHash = keyHash;
  take.mode = Mode.pay;
  take.cost = cost;
  take.paid = true;
  take.paidAtUs = paidAtUs;
}
