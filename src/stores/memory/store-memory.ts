// The memory of a memory store, which the threads of a process share: its layout, its locks, and the repair after a thread that ends while it
// writes. One reservation for all that the bounds allow; the system provides pages only as they are written. It never grows, because a thread
// can't make other threads use a larger one in the middle of a take.
//
// Buckets lie in stripes, by their hashes. A take locks the stripes of all its buckets in the order of their numbers, and after them, if it
// needs them, the lock of logs and holds. It makes its changes through its thread's journal (engine/base/journaled-memory.ts) and commits
// before it unlocks. When a thread has ended, another undoes its journal, and then frees its locks (engine/base/shared-lock.ts).

import { holdBytes } from "../../engine/algorithms/hold-records.ts";
import { logRoomBytes } from "../../engine/algorithms/log-blocks.ts";
import { InvariantError } from "../../engine/base/invariant.ts";
import { JournaledMemory, journalBytes, reserve } from "../../engine/base/journaled-memory.ts";
import { freeLock, ownerOf, takeLock } from "../../engine/base/shared-lock.ts";
import type { KeyHash } from "../../engine/domain/key-bytes.ts";
import { HOLDS_PER_BUCKET_MAX } from "../../engine/domain/limit.ts";

/** Bounds of a small store; the service has its own (process/app/open-store.ts). */
const BUCKETS_MAX_DEFAULT = 16_383;
const LOG_BYTES_MAX_DEFAULT = 16_777_216;
const HOLDS_MAX_DEFAULT = 2 * HOLDS_PER_BUCKET_MAX;

/** Fewest buckets of a stripe: stripes differ in how many keys fall to them, and the fewer they have, the more they differ. */
const STRIPE_BUCKETS_MIN = 8_192;
const STRIPES_MAX = 1_024;
/** The first ten bits of a hash choose among that many. */
const STRIPE_SHIFT = 22;
/** Room of a stripe beyond the mean, in standard deviations: so many keys more fall to no stripe in practice. */
const STRIPE_SLACK = 5;

/** Words of a stripe's head: two cache lines, so that threads in different stripes do not wait for one another's cache. */
export const STRIPE_WORDS = 32;
/** Words of a record of a bucket (buckets.ts). */
export const RECORD_WORDS = 12;

/** Bounds of a memory store. */
export interface MemoryBounds {
  /** Buckets that there is room for, at least 1; with several stripes up to 6 % more. */
  readonly bucketsMax?: number;
  /** Most bytes of sliding logs; a take that needs more is left unanswered. */
  readonly logBytesMax?: number;
  /** Most live holds of all buckets. */
  readonly holdsMax?: number;
  /** Most threads that take at once. */
  readonly threadsMax?: number;
}

/** Where everything lies in the buffer. Places are in bytes, multiples of 8. */
export class MemoryLayout {
  readonly stripes: number;
  /** Most buckets of a stripe, and the chains that lead to them. */
  readonly stripeBuckets: number;
  readonly stripeChains: number;
  readonly chainsAt: number;
  readonly recordsAt: number;
  readonly logsAt: number;
  readonly logBytes: number;
  readonly holdsAt: number;
  readonly holdsMax: number;
  readonly journalsAt: number;
  readonly bytes: number;

  constructor({
    bucketsMax = BUCKETS_MAX_DEFAULT,
    logBytesMax = LOG_BYTES_MAX_DEFAULT,
    holdsMax = HOLDS_MAX_DEFAULT,
    threadsMax = 1,
  }: MemoryBounds) {
    const stripes = 2 ** Math.floor(Math.log2(Math.max(1, bucketsMax / STRIPE_BUCKETS_MIN)));
    this.stripes = Math.min(stripes, STRIPES_MAX);
    const mean = Math.floor(bucketsMax / this.stripes);
    this.stripeBuckets = this.stripes === 1 ? mean : mean + Math.ceil(STRIPE_SLACK * Math.sqrt(mean));
    this.stripeChains = 2 ** Math.ceil(Math.log2(this.stripeBuckets + 1));
    // The head after the last stripe's has the lock of logs and holds.
    this.chainsAt = (this.stripes + 1) * STRIPE_WORDS * 4;
    this.recordsAt = this.chainsAt + this.stripes * this.stripeChains * 4;
    this.logsAt = align(this.recordsAt + this.stripes * this.stripeBuckets * RECORD_WORDS * 4);
    this.logBytes = logBytesMax;
    this.holdsAt = align(this.logsAt + logRoomBytes(logBytesMax));
    this.holdsMax = holdsMax;
    this.journalsAt = align(this.holdsAt + holdBytes(holdsMax));
    this.bytes = this.journalsAt + (1 + threadsMax) * journalBytes();
  }
}

function align(bytes: number): number {
  return Math.ceil(bytes / 64) * 64;
}

/** The number of the thread that reads or writes a snapshot. Those that take have numbers from 1. */
export const SNAPSHOT_THREAD = 0;

/** What one thread gives another for the use of the same memory. Can be sent in a message. */
export interface SharedStore {
  readonly buffer: SharedArrayBuffer;
  readonly bounds: MemoryBounds;
}

/** A new, empty memory for threads to share, all of which must hash keys with the same key (useHashKey). Throws RangeError if the system does not give so much. */
export function newSharedStore(bounds: MemoryBounds): SharedStore {
  return { buffer: reserve(new MemoryLayout(bounds).bytes), bounds };
}

/** One thread's access to the memory. */
export class StoreMemory {
  readonly layout: MemoryLayout;
  readonly memory: JournaledMemory;
  readonly #words: Int32Array;
  readonly #owner: number;
  /** The stripes that are locked, in their order; the first `#lockedCount` count. The last may be the stripe of logs and holds. */
  readonly #locked: number[] = [];
  #lockedCount = 0;

  /** `thread`: SNAPSHOT_THREAD, or from 1 to `threadsMax`; no two living threads may have the same. */
  constructor({ buffer, bounds }: SharedStore, thread: number) {
    const { threadsMax = 1 } = bounds;
    if (thread > threadsMax) throw new InvariantError(`thread ${thread} is one of ${threadsMax}`);
    this.layout = new MemoryLayout(bounds);
    this.memory = new JournaledMemory(buffer, this.layout.journalsAt + thread * journalBytes());
    this.#words = this.memory.words;
    this.#owner = thread + 1;
  }

  /** The stripe of a bucket. */
  stripeOf({ keyHash }: KeyHash): number {
    return (keyHash >>> STRIPE_SHIFT) & (this.layout.stripes - 1);
  }

  /** Adds the stripe to those that `lock` locks. Nothing may be locked. */
  want(stripe: number): void {
    const locked = this.#locked;
    let at = this.#lockedCount;
    while (at > 0 && (locked[at - 1] as number) > stripe) at--;
    if (at > 0 && locked[at - 1] === stripe) return;
    for (let i = this.#lockedCount; i > at; i--) locked[i] = locked[i - 1] as number;
    locked[at] = stripe;
    this.#lockedCount++;
  }

  /** Waits for the locks of all wanted stripes. */
  lock(): void {
    for (let i = 0; i < this.#lockedCount; i++) this.#lock(this.#locked[i] as number);
  }

  /** Waits for the lock of logs and holds, unless this thread has it. It may be waited for while stripes are locked. */
  lockLogsAndHolds(): void {
    const { stripes } = this.layout;
    if (this.#lockedCount > 0 && this.#locked[this.#lockedCount - 1] === stripes) return;
    this.#lock(stripes);
    this.#locked[this.#lockedCount++] = stripes;
  }

  /** Keeps what was written; frees all locks of this thread. */
  commit(): void {
    this.memory.commit();
    this.#unlock();
  }

  /** Takes back what was written since the locks were taken, and frees them. */
  rollBack(): void {
    this.memory.undo();
    this.#unlock();
  }

  /** For the number of a thread that has ended: as `rollBack`, but finds the thread's locks. */
  endThread(): void {
    this.memory.undo();
    for (let stripe = 0; stripe <= this.layout.stripes; stripe++) {
      const at = stripe * STRIPE_WORDS;
      if (ownerOf(this.#words, at) === this.#owner) freeLock(this.#words, at);
    }
  }

  #unlock(): void {
    while (this.#lockedCount > 0) freeLock(this.#words, (this.#locked[--this.#lockedCount] as number) * STRIPE_WORDS);
  }

  #lock(stripe: number): void {
    takeLock(this.#words, stripe * STRIPE_WORDS, this.#owner);
  }
}
