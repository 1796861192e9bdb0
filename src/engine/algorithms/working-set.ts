// The buckets of the group being settled: one per key, however many takes are on it. Reused from group to group.

import type { Take } from "../domain/take.ts";
import { type BucketAccess, WorkingBucket } from "./bucket-access.ts";
import { advanceBucket, clearBucket, handOverBucket, markBucketOpened } from "./bucket-steps.ts";
import { openWithHolds } from "./holds.ts";

/** Up to this many buckets, a bucket is found by comparing keys one by one; beyond, by a Map. */
const SCAN_MAX = 16;

/** Working buckets of one group. */
export class WorkingSet {
  readonly #access: BucketAccess;
  /** Pooled. The first `size` belong to the group. */
  readonly buckets: WorkingBucket[] = [];
  size = 0;
  readonly #byKey = new Map<string, WorkingBucket>();

  constructor(access: BucketAccess) {
    this.#access = access;
  }

  /** Empties the set for the next group. */
  reset(): void {
    if (this.size > SCAN_MAX) this.#byKey.clear();
    this.#access.logs.beginGroup();
    this.#access.holds.beginStep();
    this.size = 0;
  }

  /** The bucket of the take. The first take on it loads it and brings it to `nowUs`. */
  open(take: Take, nowUs: number): WorkingBucket {
    take.limit.calendar?.turnTo(nowUs);
    const bucket = this.#find(take);
    if (bucket === undefined) return this.#load(take, nowUs);
    if (bucket.limit !== take.limit) {
      if (bucket.limit !== undefined) handOverBucket(bucket, bucket.limit, nowUs);
      bucket.limit = take.limit;
    }
    return bucket;
  }

  #find(take: Take): WorkingBucket | undefined {
    take.needKeyBytes();
    if (this.size > SCAN_MAX) return this.#byKey.get(take.bucketKey);
    for (let i = 0; i < this.size; i++) {
      const bucket = this.buckets[i];
      if (bucket?.hasKeyOf(take)) return bucket;
    }
    return undefined;
  }

  #load(take: Take, nowUs: number): WorkingBucket {
    const bucket = this.#nextBucket();
    bucket.useKeyOf(take);
    bucket.algorithm = take.limit.algorithm;
    bucket.limit = take.limit;
    bucket.log = undefined;
    bucket.lifetimeUs = 0;
    bucket.isChangedByTime = false;
    if (take.limit.holdSeconds > 0) bucket.isChangedByTime = openWithHolds(bucket, take.limit, this.#access, nowUs);
    else if (this.#access.load(bucket)) bucket.isChangedByTime = advanceBucket(bucket, take.limit, nowUs);
    else clearBucket(bucket, take.limit, nowUs);
    markBucketOpened(bucket);
    if (this.size > SCAN_MAX) this.#index();
    return bucket;
  }

  #nextBucket(): WorkingBucket {
    let bucket = this.buckets[this.size];
    if (bucket === undefined) {
      bucket = new WorkingBucket();
      this.buckets[this.size] = bucket;
    }
    this.size++;
    return bucket;
  }

  /** Adds the missing buckets to the Map: all of them when the group has just passed SCAN_MAX, else the last one. */
  #index(): void {
    for (let i = this.#byKey.size; i < this.size; i++) {
      const bucket = this.buckets[i];
      if (bucket !== undefined) this.#byKey.set(bucket.bucketKey, bucket);
    }
  }
}
