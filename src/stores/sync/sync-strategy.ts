// One way of counting in memory a limit that several processes share: lease, periodic or share. sync-store.ts settles calls
// with it; each strategy says in its own file what bound it keeps. Everything here is synchronous.

import type { Take } from "../../core/take.ts";
import type { BucketMemory } from "../store.ts";

/** Counts the limits of one `sync`. Nothing here throws or waits. */
export interface SyncStrategy extends BucketMemory {
  /** How often `maintain` wants to be called, in milliseconds. */
  readonly maintenanceMs: number;
  /**
   * Judges a take in memory, pays it if it has room, and writes its answer. False, and nothing written: this take has to
   * be answered by the shared store. Refunds are judged here and applied by `conclude`.
   */
  take(take: Take, nowUs: number): boolean;
  /** Takes back what `take` paid, now or after the shared store has refused the call; leaves the answer alone. */
  undo(take: Take, nowUs: number): void;
  /** Ends a take that was judged here: applies a refund, and writes the bucket's state as it is now. */
  conclude(take: Take, nowUs: number): void;
  /** Tokens to ask of the shared store beside a take that goes there to pay; 0 for none. */
  prefetch(take: Take, nowUs: number): number;
  /**
   * Hears the shared store's answer to a take that went there, and to the prefetch beside it. `sentUs` is when both were
   * sent. `take` is undefined if the store failed or was not asked.
   */
  learn(asked: Take, take: Take | undefined, prefetched: Take | undefined, sentUs: number, nowUs: number): void;
  /** Takes back a paid take of a settled call. False: the shared store was paid and has to be given back. */
  giveBack(take: Take, nowUs: number): boolean;
  /** Housekeeping: returns, reports. */
  maintain(nowUs: number): void;
  /** Hands over what others should know before the process ends. */
  close(nowUs: number): void;
}
