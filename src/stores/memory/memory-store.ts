// Keeps buckets in the memory of this process, which its threads share. A group is settled before `take` returns. The buckets end with the
// process, unless snapshot/ keeps a copy in a file.

import { HoldCounts } from "../../engine/algorithms/hold-counts.ts";
import { Settlement } from "../../engine/algorithms/settlement.ts";
import type { Clock } from "../../engine/base/clock.ts";
import { divideDown, MICROS_PER_SECOND } from "../../engine/base/units.ts";
import { newHash } from "../../engine/domain/key-bytes.ts";
import { type Take, type TakeGroup, Verdict } from "../../engine/domain/take.ts";
import type { LocalStore } from "../store.ts";
import { SILENT_STORE_OBSERVER, type StoreObserver } from "../store-observer.ts";
import { Buckets } from "./buckets.ts";
import { type MemoryBounds, newSharedStore, type SharedStore, StoreMemory } from "./store-memory.ts";

/** How often buckets and holds that have ended are looked for, while there are any. */
const SWEEP_MS = 50;
/** Records that one sweep passes, and those of one lock. A sweep takes a millisecond if all buckets have expired. */
const RECORDS_PER_SWEEP = 8_192;
const RECORDS_PER_LOCK = 64;
/** For a day after the host's clock was set, buckets are kept an hour longer: until then, windows may end later than they began to. */
const KEPT_US = 86_400 * MICROS_PER_SECOND;
const KEPT_LONGER_S = 3_600;

/** What a memory store is made of. */
export interface MemoryStoreOptions extends MemoryBounds {
  readonly clock: Clock;
  readonly observer?: StoreObserver;
  /** The memory of all threads, whose bounds then count, and this thread's number, from 1. By default it has memory of its own. */
  readonly shared?: { readonly store: SharedStore; readonly thread: number };
}

/**
 * The store inside the process. It takes at most 150 bytes for each bucket, whatever its key, and `logBytesMax` for sliding logs
 * (test/property/memory-bounds.test.ts). No take waits for it to grow (bench/micro/take.mjs).
 */
export class MemoryStore implements LocalStore {
  readonly #clock: Clock;
  readonly #observer: StoreObserver;
  readonly #memory: StoreMemory;
  readonly #settlement: Settlement;
  #sweeping: NodeJS.Timeout | undefined = undefined;
  #sweptStripe = 0;
  readonly #ended = newHash();

  readonly buckets: Buckets;
  /** For other threads, such as the snapshot's. */
  readonly shared: SharedStore;

  constructor({ clock, observer = SILENT_STORE_OBSERVER, shared, ...bounds }: MemoryStoreOptions) {
    this.#clock = clock;
    this.#observer = observer;
    this.shared = shared?.store ?? newSharedStore(bounds);
    this.#memory = new StoreMemory(this.shared, shared?.thread ?? 1);
    this.buckets = new Buckets(this.#memory, {
      onEvicted: (buckets) => observer.evicted(buckets),
      holdCounts: new HoldCounts(),
      shift: clock.shift,
    });
    this.#settlement = new Settlement(this.buckets);
  }

  /** Number of buckets, with expired ones that have not been swept. */
  get bucketCount(): number {
    return this.buckets.count;
  }

  /** Bytes of buckets and logs, free places included; they are reused, never freed. */
  get bytes(): number {
    return this.buckets.bytes;
  }

  /** Settles the group at once; always returns true. */
  take(group: TakeGroup): boolean {
    const nowUs = this.#lock(group);
    try {
      this.#settlement.settle(group, nowUs);
      this.#memory.commit();
    } catch (error) {
      this.#memory.rollBack();
      throw error;
    }
    if (group.takesWithHolds > 0) this.#endHolds();
    if (group.failure !== undefined && group.verdict === Verdict.failed) this.#observer.failed(group.failure);
    if (this.#sweeping === undefined) this.#startSweeping();
    return true;
  }

  giveBack(group: TakeGroup): void {
    const nowUs = this.#lock(group);
    const takes = this.#atomically(() => this.#settlement.giveBack(group, nowUs));
    if (takes > 0) this.#observer.gaveBack(takes);
  }

  forget(take: Take): void {
    const nowUs = this.#lockBucket(take);
    this.#atomically(() => this.#settlement.forget(take, nowUs));
  }

  knowsHold(take: Take): boolean {
    const nowUs = this.#lockBucket(take);
    return this.#atomically(() => this.buckets.holds.knows(take, take.holdId, nowUs));
  }

  close(): Promise<void> {
    clearInterval(this.#sweeping);
    return Promise.resolve();
  }

  /** Locks all that the group needs, and returns the time, which is read under the locks. */
  #lock(group: TakeGroup): number {
    const memory = this.#memory;
    for (let i = 0; i < group.size; i++) (group.takes[i] as Take).needKeyBytes();
    for (let i = 0; i < group.size; i++) memory.want(memory.stripeOf(group.takes[i] as Take));
    memory.lock();
    if (group.takesWithHolds > 0 || group.takesOnLogs > 0) memory.lockLogsAndHolds();
    return this.#now();
  }

  #lockBucket(bucket: Take): number {
    bucket.needKeyBytes();
    this.#memory.want(this.#memory.stripeOf(bucket));
    this.#memory.lock();
    this.#memory.lockLogsAndHolds();
    return this.#now();
  }

  #now(): number {
    const nowUs = this.#clock.nowUs();
    const nowS = divideDown(nowUs, MICROS_PER_SECOND);
    this.buckets.nowS = nowS;
    this.buckets.endedS = nowUs < this.buckets.shift.changedAtUs + KEPT_US ? nowS - KEPT_LONGER_S : nowS;
    return nowUs;
  }

  /** Runs a change under the locks that this thread has, and frees them. A change that fails is taken back. */
  #atomically<T>(change: () => T): T {
    try {
      const result = change();
      this.#memory.commit();
      return result;
    } catch (error) {
      this.#memory.rollBack();
      throw error;
    }
  }

  #startSweeping(): void {
    // The interval does not keep a store that nobody has any more, with all that it reserves.
    const store = new WeakRef(this);
    const sweeping = setInterval(() => {
      const kept = store.deref();
      if (kept === undefined) clearInterval(sweeping);
      else kept.sweep();
    }, SWEEP_MS);
    this.#sweeping = sweeping.unref();
  }

  /** Drops buckets that have expired, of the next records, and ends holds. There is one interval for all, and none while no bucket is left. */
  sweep(): void {
    const { layout } = this.#memory;
    for (let left = RECORDS_PER_SWEEP; left > 0; left -= RECORDS_PER_LOCK) {
      // Further locks in a stripe of few records would look at the same ones again.
      const stripe = this.#sweptStripe++ % layout.stripes;
      if (this.#sweptStripe > layout.stripes && this.buckets.madeIn(stripe) <= RECORDS_PER_LOCK) break;
      this.#memory.want(stripe);
      this.#memory.lock();
      this.#now();
      this.#atomically(() => this.buckets.sweep(stripe, RECORDS_PER_LOCK, this.buckets.endedS));
    }
    this.#endHolds();
    if (this.buckets.count > 0 || this.buckets.holds.liveCount > 0) return;
    clearInterval(this.#sweeping);
    this.#sweeping = undefined;
  }

  /** Ends holds that have ended in one more bucket, so that holds also end where no call asks. */
  #endHolds(): void {
    this.#memory.lockLogsAndHolds();
    const { holds } = this.buckets;
    const limit = this.#atomically(() => holds.nextEnded(this.#clock.nowUs(), this.#ended));
    if (limit === undefined) return;
    this.#memory.want(this.#memory.stripeOf(this.#ended));
    this.#memory.lock();
    this.#memory.lockLogsAndHolds();
    const nowUs = this.#now();
    // If another thread has ended them meanwhile, nothing changes.
    this.#atomically(() => this.#settlement.endHolds(this.#ended, limit, nowUs));
  }
}
