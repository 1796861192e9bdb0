// The buckets of the group being settled: one per key, however many takes are on it. Reused from group to group.

import { Algorithm, type Limit } from "../domain/limit.ts";
import type { Take } from "../domain/take.ts";
import { calendarWindow } from "./calendar-window.ts";
import { fixedWindow } from "./fixed-window.ts";
import { openWithHolds } from "./holds.ts";
import { slidingLog } from "./sliding-log.ts";
import { slidingWindow } from "./sliding-window.ts";
import { tokenBucket } from "./token-bucket.ts";
import { type BucketAccess, type Step, WorkingBucket } from "./working-bucket.ts";

/** The Step of each algorithm. */
const STEPS: Readonly<Record<Algorithm, Step>> = {
  [Algorithm.tokenBucket]: tokenBucket,
  [Algorithm.slidingWindow]: slidingWindow,
  [Algorithm.fixedWindow]: fixedWindow,
  [Algorithm.slidingLog]: slidingLog,
  [Algorithm.calendarWindow]: calendarWindow,
};

/** Working buckets of one group. */
export class WorkingSet {
  readonly #access: BucketAccess;
  /** Pooled. The first `size` belong to the group. */
  readonly buckets: WorkingBucket[] = [];
  size = 0;

  constructor(access: BucketAccess) {
    this.#access = access;
  }

  /** Empties the set for the next group. */
  reset(): void {
    this.#access.logs.beginGroup();
    this.#access.holds.beginStep();
    this.size = 0;
  }

  /** The bucket of the take. The first take on it loads it and brings it to `nowUs`. */
  open(take: Take, nowUs: number): WorkingBucket {
    take.limit.calendar?.turnTo(nowUs);
    take.needKeyBytes();
    for (let i = 0; i < this.size; i++) {
      const bucket = this.buckets[i] as WorkingBucket;
      if (!bucket.hasKeyOf(take)) continue;
      if (bucket.limit !== take.limit) handOver(bucket, take.limit, nowUs);
      return bucket;
    }
    return this.#load(take, nowUs);
  }

  #load(take: Take, nowUs: number): WorkingBucket {
    const { limit } = take;
    const bucket = this.#nextBucket();
    bucket.useKeyOf(take);
    bucket.algorithm = limit.algorithm;
    bucket.step = STEPS[limit.algorithm];
    bucket.limit = limit;
    bucket.log = undefined;
    if (limit.algorithm === Algorithm.slidingLog) bucket.useLog();
    bucket.lifetimeUs = 0;
    bucket.isChangedByTime = false;
    if (limit.holdSeconds > 0) bucket.isChangedByTime = openWithHolds(bucket, limit, this.#access, nowUs);
    else if (this.#access.load(bucket)) bucket.isChangedByTime = bucket.step.advance(bucket.kept, limit, nowUs);
    else bucket.step.clear(bucket.kept, limit, nowUs);
    bucket.markOpened();
    return bucket;
  }

  #nextBucket(): WorkingBucket {
    let bucket = this.buckets[this.size];
    if (bucket === undefined) {
      bucket = new WorkingBucket(tokenBucket);
      this.buckets[this.size] = bucket;
    }
    this.size++;
    return bucket;
  }
}

/** Prepares an open bucket for another limit: the refill so far is counted under the limit under which it passed. */
function handOver(bucket: WorkingBucket, limit: Limit, nowUs: number): void {
  const { state, limit: from } = bucket;
  bucket.limit = limit;
  if (from === undefined || bucket.algorithm !== Algorithm.tokenBucket) return;
  const before = state.used;
  tokenBucket.settle(state, from, nowUs);
  // Refill by time alone is no change that must be written.
  bucket.openedUsed += state.used - before;
}
