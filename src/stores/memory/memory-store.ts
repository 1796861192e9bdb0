// Keeps buckets in this process. A group is settled before `take` returns. The buckets end with the process, unless snapshot/ keeps a
// copy in a file.

import { Settlement } from "../../engine/algorithms/settlement.ts";
import type { Clock } from "../../engine/base/clock.ts";
import { divideDown, MICROS_PER_SECOND } from "../../engine/base/units.ts";
import { type Take, type TakeGroup, Verdict } from "../../engine/domain/take.ts";
import type { LocalStore } from "../store.ts";
import { SILENT_STORE_OBSERVER, type StoreObserver } from "../store-observer.ts";
import { Buckets, type BucketsOptions } from "./buckets.ts";
import { ExpirySweep } from "./expiry-sweep.ts";

/** Default of `bucketsMax`; takes at most 141 MB. */
const BUCKETS_MAX_DEFAULT = 1_000_000;
/** Default of `logBytesMax`: room for some 7.8 million payments. */
const LOG_BYTES_MAX_DEFAULT = 134_217_728;

/** What a memory store is made of. */
export interface MemoryStoreOptions {
  readonly clock: Clock;
  readonly observer?: StoreObserver;
  /** Most buckets, at least 1. Beyond it a new bucket evicts the one that expires soonest among a few. */
  readonly bucketsMax?: number;
  /** Most bytes of sliding logs; a take that needs more is left unanswered. */
  readonly logBytesMax?: number;
}

/**
 * The store inside the process. It takes at most 150 bytes for each of `bucketsMax` buckets, whatever their keys, and `logBytesMax` for
 * sliding logs (test/property/memory-bounds.test.ts). No take waits for it to grow (bench/micro/take.mjs).
 */
export class MemoryStore implements LocalStore {
  readonly #clock: Clock;
  readonly #observer: StoreObserver;
  readonly #bounds: BucketsOptions;
  #buckets: Buckets;
  #settlement: Settlement;
  #sweep: ExpirySweep;

  constructor(options: MemoryStoreOptions) {
    const observer = options.observer ?? SILENT_STORE_OBSERVER;
    this.#clock = options.clock;
    this.#observer = observer;
    this.#bounds = {
      bucketsMax: options.bucketsMax ?? BUCKETS_MAX_DEFAULT,
      logBytesMax: options.logBytesMax ?? LOG_BYTES_MAX_DEFAULT,
      onEvicted: (buckets) => observer.evicted(buckets),
    };
    this.#buckets = this.emptyBuckets();
    this.#settlement = new Settlement(this.#buckets);
    this.#sweep = new ExpirySweep(this.#buckets, options.clock);
  }

  /** Number of buckets, with expired ones that have not been swept. */
  get bucketCount(): number {
    return this.#buckets.count;
  }

  /** Bytes of buckets and logs, free places included; they are reused, never freed. */
  get bytes(): number {
    return this.#buckets.bytes;
  }

  /** The buckets of this store. */
  get buckets(): Buckets {
    return this.#buckets;
  }

  /** New, empty buckets with this store's bounds. */
  emptyBuckets(): Buckets {
    return new Buckets(this.#bounds);
  }

  /** Replaces the store's buckets. */
  useBuckets(buckets: Buckets): void {
    this.#sweep.stop();
    this.#buckets = buckets;
    this.#settlement = new Settlement(buckets);
    this.#sweep = new ExpirySweep(buckets, this.#clock);
    if (buckets.count > 0) this.#sweep.start();
  }

  /** Settles the group at once; always returns true. */
  take(group: TakeGroup): boolean {
    const nowUs = this.#clock.nowUs();
    this.#buckets.nowS = divideDown(nowUs, MICROS_PER_SECOND);
    this.#settlement.settle(group, nowUs);
    if (group.takesWithHolds > 0) this.#settlement.expireNext(nowUs);
    if (group.failure !== undefined && group.verdict === Verdict.failed) this.#observer.failed(group.failure);
    if (this.#buckets.count > 0) this.#sweep.start();
    return true;
  }

  giveBack(group: TakeGroup): void {
    const nowUs = this.#clock.nowUs();
    this.#buckets.nowS = divideDown(nowUs, MICROS_PER_SECOND);
    const takes = this.#settlement.giveBack(group, nowUs);
    if (takes > 0) this.#observer.gaveBack(takes);
  }

  forget(take: Take): void {
    this.#settlement.forget(take, this.#clock.nowUs());
  }

  knowsHold({ bucketKey, holdId }: Take): boolean {
    return this.#buckets.holds.knows(bucketKey, holdId, this.#clock.nowUs());
  }

  close(): Promise<void> {
    this.#sweep.stop();
    return Promise.resolve();
  }
}
