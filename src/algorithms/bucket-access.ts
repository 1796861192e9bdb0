// How a settlement reaches the buckets of whoever keeps them. Everything here is synchronous.

import { KeyBytes, Keyed } from "../core/key-bytes.ts";
import { Algorithm, type Limit } from "../core/limit.ts";
import type { HoldBook } from "./hold-book.ts";
import { LogBlocks } from "./log-blocks.ts";
import { LogState } from "./log-state.ts";
import { BucketState } from "./step.ts";

/** A bucket while a group is settled: a copy of its numbers, or its log, which changes only by `commit`. */
export class WorkingBucket extends Keyed {
  algorithm: Algorithm = Algorithm.tokenBucket;
  /** The limit it was last opened for; takes of a group may name one bucket by several. */
  limit: Limit | undefined = undefined;
  /** Numbers of the bucket; of no meaning for a sliding log. */
  readonly state = new BucketState();
  /** Entries of a sliding log; undefined for the others. */
  log: LogState | undefined = undefined;

  /** What was used when the bucket was opened and brought to now; the bucket is written if it ends up different. */
  openedUsed = 0;
  openedPrevious = 0;
  /** Since it was opened the bucket was dated now, because it was dated much later, or holds have ended. It is written for that, too. */
  isChangedByTime = false;
  /** How long the state means something, in microseconds from now. */
  lifetimeUs = 0;

  /** For the access alone: where it found the bucket, and what tells whether that still holds. */
  place = -1;
  placeVersion = 0;

  readonly #logs: LogBlocks;
  /** What `log` is, whenever there is one. */
  #ownLog: LogState | undefined;

  /** `logs` is where the entries of logs are kept. */
  constructor(logs = new LogBlocks()) {
    super(new KeyBytes(0));
    this.#logs = logs;
  }

  /** Makes the bucket one with a log, which is to be opened or cleared before it is looked at. */
  useLog(): LogState {
    this.#ownLog ??= new LogState(this.#logs);
    this.log = this.#ownLog;
    return this.log;
  }
}

/** Keeps buckets by key. */
export interface BucketAccess {
  /** Where the entries of logs are kept. */
  readonly logs: LogBlocks;
  /** Payments that wait for their settlement. */
  readonly holds: HoldBook;
  /** Fills `state`, or opens the bucket's log, from what is kept under its key. False, and neither touched, if there is none. */
  load(bucket: WorkingBucket): boolean;
  /** Keeps the bucket. It means nothing after `expiresAtUs`, unless its limit is edited or time steps back. */
  save(bucket: WorkingBucket, expiresAtUs: number): void;
  /** Has a bucket that did not change mean something until `expiresAtUs` at least. There may be none. */
  extend(bucket: WorkingBucket, expiresAtUs: number): void;
  /** Keeps the bucket no longer; there may be none. */
  remove(bucket: WorkingBucket): void;
}
