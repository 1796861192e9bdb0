// What holds do to their bucket: a payment on a limit with holds waits for its settlement. Settled in time it comes to what
// was used; otherwise it is given back when its time has passed, as if it had been at that moment, whenever that is noticed.
// The same stands in lua/holds.lua; test/property/agreement.ts holds them equal.

import type { Limit } from "../core/limit.ts";
import { HoldFound, type Take } from "../core/take.ts";
import { MICROS_PER_SECOND } from "../core/units.ts";
import type { BucketAccess, WorkingBucket } from "./bucket-access.ts";
import { advanceBucket, clearBucket, giveBackCost, postPayCost } from "./bucket-steps.ts";
import type { BucketHolds, Hold, HoldBook } from "./hold-book.ts";
import { tokenBucket } from "./token-bucket.ts";

/** Holds that end in one step, at most; the rest ends when the bucket is next asked about. */
const EXPIRED_PER_STEP_MAX = 256;

/** A refusal for too many holds says at least so long. */
const WAIT_US_MIN = MICROS_PER_SECOND;

/**
 * Opens a bucket with holds at `nowUs`, those that have ended given back, each at the time at which it ended. True if that changed it.
 * A bucket that counts holds is kept nowhere: it is as full as it has holds.
 */
export function openWithHolds(bucket: WorkingBucket, limit: Limit, access: BucketAccess, nowUs: number): boolean {
  const { holds: book } = access;
  const holds = book.of(bucket.bucketKey);
  const isKept = !limit.isConcurrent && access.load(bucket);
  if (!isKept) clearBucket(bucket, limit, nowUs);
  const haveEnded = holds !== undefined && expireHolds(bucket, limit, holds, book, nowUs);
  if (limit.isConcurrent && holds !== undefined) tokenBucket.pay(bucket.state, holds.size);
  return isKept && (advanceBucket(bucket, limit, nowUs) || haveEnded);
}

function expireHolds(bucket: WorkingBucket, limit: Limit, holds: BucketHolds, book: HoldBook, nowUs: number): boolean {
  let count = 0;
  for (let hold = holds.first(); hold !== undefined && count < EXPIRED_PER_STEP_MAX; hold = holds.first()) {
    if (hold.endsAtUs > nowUs) break;
    count++;
    const atUs = Math.min(nowUs, Math.max(hold.endsAtUs, bucket.state.atUs));
    advanceBucket(bucket, limit, atUs);
    giveBackCost(bucket, limit, hold.cost, hold.paidAtUs, atUs);
    book.remove(holds, hold);
  }
  return count > 0;
}

/** True if a payment of the take may open a hold. */
export function opensHold({ limit, holdId }: Take): boolean {
  return limit.holdSeconds > 0 && (limit.isConcurrent || holdId !== "");
}

/**
 * Ends the hold of a payment that is given back. False if there is none any more, because it has ended or was settled: then
 * nothing is left to give back.
 */
export function closeHold(take: Take, book: HoldBook): boolean {
  if (!opensHold(take)) return true;
  const holds = book.of(take.bucketKey);
  if (holds === undefined) return false;
  const hold = holds.paidAt(take.holdId, take.paidAtUs);
  if (hold !== undefined) book.remove(holds, hold);
  // Another's hold has the id: this payment was final, and has no hold of its own.
  return hold !== undefined || holds.find(take.holdId) !== undefined;
}

/** Opens a hold for what the take has paid. A payment under a known id is final, but on what counts holds. */
export function openHold({ bucketKey, holdId, limit, cost, paidAtUs }: Take, book: HoldBook, nowUs: number): void {
  const isKnown = book.of(bucketKey)?.find(holdId) !== undefined || book.isSettled(bucketKey, holdId, nowUs);
  if (!limit.isConcurrent && (isKnown || holdId === "")) return;
  const id = isKnown ? "" : holdId;
  book.add(bucketKey, limit, { id, cost, paidAtUs, endsAtUs: nowUs + limit.holdSeconds * MICROS_PER_SECOND });
}

/**
 * Settles the hold of the take at what was used. Returns the hits that the state could not hold, and writes into the take
 * what was found.
 */
export function settleHold(bucket: WorkingBucket, take: Take, book: HoldBook, nowUs: number): number {
  const { bucketKey, holdId, limit } = take;
  const holds = book.of(bucketKey);
  const hold = holds?.find(holdId);
  // One that has ended and is still there, because many have, is given back later.
  if (holds === undefined || hold === undefined || hold.endsAtUs <= nowUs) {
    const isSettled = book.isSettled(bucketKey, holdId, nowUs);
    take.counted = isSettled ? HoldFound.settled : HoldFound.none;
    if (isSettled || limit.isConcurrent) return 0;
    noteSettled(take, book, nowUs);
    return postPayCost(bucket, limit, take.cost, nowUs);
  }
  take.counted = hold.cost;
  book.remove(holds, hold);
  noteSettled(take, book, nowUs);
  const used = limit.isConcurrent ? 0 : take.cost;
  if (used < hold.cost) giveBackCost(bucket, limit, hold.cost - used, hold.paidAtUs, nowUs);
  return used > hold.cost ? postPayCost(bucket, limit, used - hold.cost, nowUs) : 0;
}

function noteSettled({ bucketKey, holdId, limit }: Take, book: HoldBook, nowUs: number): void {
  book.noteSettled(bucketKey, holdId, nowUs, nowUs + limit.holdSeconds * MICROS_PER_SECOND);
}

/**
 * When a caller who finds all places taken may try again. Nobody knows when one is free; where they are taken at even
 * intervals, that is after about the age of the oldest divided by their number. At the latest the first ends.
 */
export function waitForHold(first: Hold, count: number, nowUs: number): number {
  const ageUs = Math.max(0, nowUs - first.paidAtUs);
  return Math.min(Math.max(1, first.endsAtUs - nowUs), Math.max(WAIT_US_MIN, Math.floor(ageUs / count)));
}
