// Keeps buckets in the memory of this process. A group is decided before `take` returns. The buckets end with the
// process, unless snapshot/ keeps a copy in a file.

import type { Clock } from "../../base/clock.ts";
import { Reserved } from "../../base/reserved.ts";
import { divideDown, MICROS_PER_SECOND } from "../../base/units.ts";
import { HeldSettlement } from "../../engine/algorithms/held-settlement.ts";
import { HoldBook } from "../../engine/algorithms/hold-book.ts";
import { Settlement } from "../../engine/algorithms/settlement.ts";
import { CounterSettlement } from "../../engine/counters/counter-settlement.ts";
import { newHash } from "../../engine/domain/key-bytes.ts";
import { HOLDS_PER_BUCKET_MAX } from "../../engine/domain/limit.ts";
import type { LocalStore } from "../../engine/domain/store.ts";
import { type Take, type TakeGroup, Verdict } from "../../engine/domain/take.ts";
import { SILENT_STORE_OBSERVER, type StoreObserver } from "../store-observer.ts";
import { Buckets, type MemoryBounds } from "./buckets.ts";

/** How often buckets and holds that have ended are looked for, while there are any. */
const SWEEP_MS = 50;
/** Records that one sweep passes. It takes a millisecond if all buckets have expired. */
const RECORDS_PER_SWEEP = 8_192;
/**
 * For a day after the host's clock was set, buckets are kept an hour longer: until then, windows may end later than
 * they began to.
 */
const KEPT_US = 86_400 * MICROS_PER_SECOND;
const KEPT_LONGER_S = 3_600;

/** Bounds of a small store; the service has its own (process/app/open-store.ts). */
const HOLDS_MAX_DEFAULT = 2 * HOLDS_PER_BUCKET_MAX;

/** What a memory store is made of. */
export interface MemoryStoreOptions extends MemoryBounds {
  /** Most live holds of all buckets. */
  readonly holdsMax?: number;
  readonly clock: Clock;
  readonly observer?: StoreObserver;
}

/**
 * The store inside the process. It takes at most 150 bytes for each bucket, whatever its key, and `logBytesMax` for
 * sliding logs (test/property/memory-bounds.test.ts). No take waits for it to grow (bench/micro/take.mjs).
 */
export class MemoryStore implements LocalStore {
  readonly #clock: Clock;
  readonly #observer: StoreObserver;
  readonly #settlement: Settlement;
  readonly #held: HeldSettlement;
  readonly #counters: CounterSettlement;
  #sweeping: NodeJS.Timeout | undefined = undefined;
  readonly #ended = newHash();

  readonly buckets: Buckets;
  readonly holds: HoldBook;
  /** Bytes that buckets, logs and holds take if every bound is reached. */
  readonly bytesMax: number;

  constructor(options: MemoryStoreOptions) {
    const { clock, observer = SILENT_STORE_OBSERVER, holdsMax = HOLDS_MAX_DEFAULT, ...bounds } = options;
    const memory = new Reserved();
    this.#clock = clock;
    this.#observer = observer;
    this.buckets = new Buckets({
      ...bounds,
      memory,
      onEvicted: (buckets) => observer.evicted(buckets),
      shift: clock.shift,
    });
    this.holds = new HoldBook(holdsMax, memory);
    this.bytesMax = memory.total;
    this.#settlement = new Settlement(this.buckets);
    this.#held = new HeldSettlement(this.buckets, this.holds);
    this.#counters = new CounterSettlement(this.buckets);
  }

  /** Number of buckets, with expired ones that have not been swept. */
  get bucketCount(): number {
    return this.buckets.count;
  }

  /** Bytes of buckets and logs, free places included; they are reused, never freed. */
  get bytes(): number {
    return this.buckets.bytes;
  }

  /** Decides the group at once; always returns true. It has counters or other limits, never both. */
  take(group: TakeGroup): boolean {
    needKeys(group);
    const nowUs = this.#now();
    if (group.takesWithHolds > 0) this.#takeHeld(group, nowUs);
    else (group.takes[0]?.limit.isCounter ? this.#counters : this.#settlement).settle(group, nowUs);
    if (group.failure !== undefined && group.verdict === Verdict.failed) this.#observer.failed(group.failure);
    if (this.#sweeping === undefined) this.#startSweeping();
    return true;
  }

  #takeHeld(group: TakeGroup, nowUs: number): void {
    this.#held.settle(group, nowUs);
    this.#endHolds();
  }

  giveBack(group: TakeGroup): void {
    needKeys(group);
    const takes = this.#held.giveBack(group, this.#now());
    if (takes > 0) this.#observer.gaveBack(takes);
  }

  forget(take: Take): void {
    take.needKeyBytes();
    this.#held.forget(take, this.#now());
  }

  knowsHold(take: Take): boolean {
    take.needKeyBytes();
    return this.holds.knows(take, take.holdId, this.#now());
  }

  /** Forgets all buckets and holds. */
  clear(): void {
    this.buckets.clear();
    this.holds.clear();
  }

  close(): Promise<void> {
    clearInterval(this.#sweeping);
    return Promise.resolve();
  }

  #now(): number {
    const nowUs = this.#clock.nowUs();
    const nowS = divideDown(nowUs, MICROS_PER_SECOND);
    this.buckets.nowS = nowS;
    this.buckets.endedS = nowUs < this.buckets.shift.changedAtUs + KEPT_US ? nowS - KEPT_LONGER_S : nowS;
    return nowUs;
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

  /**
   * Drops buckets that have expired, of the next records, and ends holds. There is one interval for all, and none while
   * no bucket is left.
   */
  sweep(): void {
    this.#now();
    this.buckets.sweep(RECORDS_PER_SWEEP, this.buckets.endedS);
    this.#endHolds();
    if (this.buckets.count > 0 || this.holds.liveCount > 0) return;
    clearInterval(this.#sweeping);
    this.#sweeping = undefined;
  }

  /** Ends holds that have ended in one more bucket, so that holds also end where no call asks. */
  #endHolds(): void {
    const nowUs = this.#now();
    const limit = this.holds.nextEnded(nowUs, this.#ended);
    if (limit !== undefined) this.#held.endHolds(this.#ended, limit, nowUs);
  }
}

function needKeys({ takes, size }: TakeGroup): void {
  for (let i = 0; i < size; i++) (takes[i] as Take).needKeyBytes();
}
