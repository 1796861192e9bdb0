// What a process keeps of a bucket that it counts in memory, whichever way it does so.

import type { Limit } from "../../core/limit.ts";
import { Mode, type Take, type TakeGroup } from "../../core/take.ts";
import type { LastAnswer } from "../last-answer.ts";

/** The bucket that a take is of, and how it stood by the shared store's last word. */
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

/** What tells a bucket from all others. */
export type NamedBucket = Pick<Take, "bucketKey" | "keyHash">;

/** Makes of the group the receipt of one payment, to give it back by. */
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
