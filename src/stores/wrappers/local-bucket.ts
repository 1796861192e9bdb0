// What a process keeps of a bucket that it counts in memory, whichever way it does so.

import type { Limit } from "../../core/limit.ts";
import type { Take } from "../../core/take.ts";
import type { Standing } from "./standing.ts";

/** The bucket that a take is of, and how it stood by the shared store's last word. */
export class LocalBucket implements Standing {
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
