// How a settlement reads and writes the buckets of a store. Everything here is synchronous.

import { KeyBytes, Keyed } from "../domain/key-bytes.ts";
import { Algorithm, type Limit } from "../domain/limit.ts";
import type { HoldBook } from "./hold-book.ts";
import type { LogBlocks } from "./log-blocks.ts";
import { LogState } from "./log-state.ts";
import { BucketState } from "./step.ts";

/** A bucket while a group is settled: a copy of its numbers, or of its log. */
export class WorkingBucket extends Keyed {
  algorithm: Algorithm = Algorithm.tokenBucket;
  /** The limit of the last take on it. Takes of a group may reach one bucket under several limits. */
  limit: Limit | undefined = undefined;
  /** Numbers of the bucket; unused for a sliding log. */
  readonly state = new BucketState();
  /** Payments of a sliding log; undefined for other algorithms. */
  log: LogState | undefined = undefined;

  /** What was used once the bucket was opened and brought to now. If this differs in the end, the bucket is written. */
  openedUsed = 0;
  openedPrevious = 0;
  /** True if opening the bucket moved a date in the far future to now, or ended holds. The bucket is then written too. */
  isChangedByTime = false;
  /** How long the state must be kept, in microseconds from now. */
  lifetimeUs = 0;

  /** Used by the BucketAccess alone: where it found the bucket, and a version to notice that the bucket has moved. */
  place = -1;
  placeVersion = 0;

  /** Reused: `log` is this object whenever there is a log. */
  #ownLog: LogState | undefined;

  constructor() {
    super(new KeyBytes(0));
  }

  /** Gives the bucket a log, which the caller must read or clear before use. */
  useLog(): LogState {
    this.#ownLog ??= new LogState();
    this.log = this.#ownLog;
    return this.log;
  }
}

/** A store of buckets by key. */
export interface BucketAccess {
  /** Holds sliding logs. */
  readonly logs: LogBlocks;
  /** Live holds of all buckets. */
  readonly holds: HoldBook;
  /** Fills the bucket's `state` or its log from what is kept under the key. False, with both unchanged, if nothing is kept. */
  load(bucket: WorkingBucket): boolean;
  /** Keeps the bucket. After `expiresAtUs` it is as new, unless its limit is edited or time steps back, and may be dropped. */
  save(bucket: WorkingBucket, expiresAtUs: number): void;
  /** Keeps an unchanged bucket at least until `expiresAtUs`. Does nothing if there is none. */
  extend(bucket: WorkingBucket, expiresAtUs: number): void;
  /** Removes the bucket, if there is one. */
  remove(bucket: WorkingBucket): void;
}
