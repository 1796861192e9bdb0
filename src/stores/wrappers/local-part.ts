// A way of counting limits in memory that several processes share. sync-store.ts settles calls over the parts; each part
// says what bound it keeps. Everything here is synchronous.

import type { Take } from "../../core/take.ts";

/** Counts the limits of one `sync`. Nothing here throws or waits. */
export interface LocalPart {
  /** How often `turn` wants to be called, in milliseconds. */
  readonly turnMs: number;
  /**
   * Judges a take in memory, pays it if it has room, and writes its answer. False, and nothing written: this take has to
   * be answered by the shared store. Refunds are judged here and applied by `conclude`.
   */
  take(take: Take, nowUs: number): boolean;
  /** Takes back what `take` paid, now or after the shared store has refused the call; leaves the answer alone. */
  undo(take: Take, nowUs: number): void;
  /** Ends a take that was judged here: applies a refund, and writes how the bucket stands now. */
  conclude(take: Take, nowUs: number): void;
  /** Tokens to ask of the shared store beside a take that goes there to pay; 0 for none. */
  wish(take: Take, nowUs: number): number;
  /**
   * Hears the shared store's answer to a take that was passed on, and to the wish that went with it. `sentUs` is when it
   * was sent. `take` is undefined if the store failed or was not asked.
   */
  learn(asked: Take, take: Take | undefined, wished: Take | undefined, sentUs: number, nowUs: number): void;
  /** Takes back a paid take of a settled call. False: the shared store was paid and has to be given back. */
  giveBack(take: Take, nowUs: number): boolean;
  /** Drops what is known of the bucket. */
  forget(bucketKey: string): void;
  /** Housekeeping: returns, reports. */
  turn(nowUs: number): void;
  /** Hands over what others should know before the process ends. */
  close(nowUs: number): void;
}
