// The contract of every store (test/contract/store.contract.ts), and what else a shared store can be asked.

import type { Take, TakeGroup } from "./take.ts";

/** Called when a group is decided after `take` has returned. */
export interface TakeListener {
  /**
   * The group's verdict and its takes' answers have been written. `generation` is the group's at the time of `take`.
   */
  answered(group: TakeGroup, generation: number): void;
}

/** For a group whose answer nobody waits for. */
export const NOBODY: TakeListener = { answered: () => undefined };

/** Keeps buckets, and takes from them atomically. */
export interface Store {
  /**
   * Decides all takes of the group; never throws. Takes without an answer stay `unanswered`; they make the group fail
   * (`verdict` failed, with a `failure`) unless the other takes refuse it. Payments of a failed group are kept until
   * they are given back. Returns true if the group was decided at once; then `then` is not called. Otherwise `then` is
   * called once, after `take` has returned.
   */
  take(group: TakeGroup, then: TakeListener): boolean;
  /**
   * Gives the payments of a decided group back, by receipt. Never throws; failures are counted
   * (StoreObserver.keptPaid).
   */
  giveBack(group: TakeGroup): void;
  close(): Promise<void>;
}

/** A store in this process: it decides every take before it returns. */
export interface LocalStore extends Store {
  /** Drops the bucket of the take, and its holds, without giving anything back. */
  forget(take: Take): void;
  /** Whether the take's hold is live here, or was settled here and is not forgotten yet. */
  knowsHold(take: Take): boolean;
}

/** Whether a store answers. */
export interface StoreHealth {
  /** Undefined while the store answers; otherwise the reason, in one sentence. For health pages. */
  trouble(): string | undefined;
}

/** What a process remembers of buckets, besides the store that keeps them. */
export interface BucketMemory {
  /** Drops what is remembered of a bucket that was reset or refunded outside `take`. */
  forget(bucketKey: string): void;
}

/** The processes that share the buckets of a store. */
export interface ProcessCounts {
  /** Number of processes, with this one; 1 until the first count. */
  count(): number;
  /**
   * The divisor for what is handed out in advance: at least the number of processes that hand out at that moment.
   * Infinity while that is not sure, as in a process's first seconds.
   */
  sureCount(): number;
}
