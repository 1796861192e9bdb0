// The contract every store keeps (test/contract/store.contract.ts), and what a shared store can be asked beside it.

import type { TakeGroup } from "../core/take.ts";

/** Who learns that a group was settled later. */
export interface SettleListener {
  /** The group's verdict and its takes' answers are written. `generation` is the one that was current at `take`. */
  settled(group: TakeGroup, generation: number): void;
}

/** Keeps buckets and takes from them atomically. */
export interface Store {
  /**
   * Settles all takes of the group; never throws. Takes that get no answer stay `unanswered`, and fail the group unless the
   * others refuse it (`verdict` failed, `failure` set). What was paid of a failed group stands until it is given back.
   * True: settled before it returned, `then` is not called. False: `then` is called once, later, never from inside.
   */
  take(group: TakeGroup, then: SettleListener): boolean;
  /** Undoes what was paid in a settled group, by receipt. Counted; never fails towards the caller. */
  giveBack(group: TakeGroup): void;
  close(): Promise<void>;
}

/** Whether a store answers. */
export interface StoreHealth {
  /** Undefined while the store answers, otherwise why not, in one sentence. For health pages. */
  trouble(): string | undefined;
}

/** What a process remembers of buckets beside the store that keeps them. */
export interface BucketMemory {
  /** The bucket was reset or refunded outside `take`: drops what is remembered of it. */
  forget(bucketKey: string): void;
}

/** The processes that share the buckets of a store. */
export interface ProcessCounts {
  /** How many there are, this one included; at least 1, and 1 until the first count. */
  count(): number;
  /**
   * By how many to divide what is handed out in advance: never fewer than hand anything out at that moment. Infinity while
   * that is not sure, as in the first seconds of a process.
   */
  sureCount(): number;
  /** Number of this process among them, from 0 on; -1 while others may not have counted it. */
  index(): number;
}
