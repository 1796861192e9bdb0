// What a process keeps of a bucket that it counts in memory, with any strategy.

import type { Limit } from "../../engine/domain/limit.ts";
import { Mode, type Take, type TakeGroup } from "../../engine/domain/take.ts";
import type { LastAnswer } from "../last-answer.ts";

/** A bucket, and its state by the shared store's last answer. */
export class LocalBucket implements LastAnswer {
  readonly bucketKey: string;
  readonly keyHash: number;
  limit: Limit;
  remaining = 0;
  asNewAtUs = 0;

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
