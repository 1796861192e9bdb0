// What a process keeps of a bucket that it counts in memory, whichever way it does so.

import type { Limit } from "../../core/limit.ts";
import type { Take } from "../../core/take.ts";
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
