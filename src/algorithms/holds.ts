// What holds do to their bucket: a payment on a limit with holds waits for its settlement. A hold that is settled in time comes to
// what was used. A hold whose time has passed is given back as of the moment at which it ended, however late that is noticed.
// lua/holds.lua does the same in Redis; test/property/agreement.ts holds them equal.

import { Algorithm, type Limit } from "../core/limit.ts";
import { HoldFound, type Take } from "../core/take.ts";
import { MICROS_PER_SECOND, MICROS_PER_TOKEN } from "../core/units.ts";
import type { BucketAccess, WorkingBucket } from "./bucket-access.ts";
import { advanceBucket, clearBucket, giveBackCost, postPayCost } from "./bucket-steps.ts";
import type { BucketHolds, Hold, HoldBook } from "./hold-book.ts";
import { tokenBucket } from "./token-bucket.ts";

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
  for (let hold = holds.first(); hold !== undefined; hold = holds.first()) {
    if (hold.endsAtUs > nowUs || !book.mayEndOne()) break;
    count++;
    const atUs = Math.min(nowUs, Math.max(hold.endsAtUs, bucket.state.atUs));
    advanceBucket(bucket, limit, atUs);
    giveBackHeld(bucket, limit, holds, hold, hold.cost, atUs);
    book.remove(holds, hold);
  }
  holds.stats.holdsExpired += count;
  return count > 0;
}

/**
 * Gives back `cost` of what the hold has paid. Of a token bucket that is exact: as much of it as is owed still, and was at
 * any time since (DebtLows).
 */
function giveBackHeld(
  bucket: WorkingBucket,
  limit: Limit,
  holds: BucketHolds,
  hold: Hold,
  cost: number,
  nowUs: number,
): void {
  if (limit.algorithm !== Algorithm.tokenBucket || limit.isConcurrent) {
    giveBackCost(bucket, limit, cost, hold.paidAtUs, nowUs);
    return;
  }
  const owed = tokenBucket.debtAt(bucket.state, limit, nowUs);
  const debt = Math.min(cost * MICROS_PER_TOKEN, holds.lows.since(hold.payment), owed);
  tokenBucket.takeOff(bucket.state, limit, debt, nowUs);
  holds.lows.takeOff(hold.payment, debt);
}

/** A payment on a limit with holds is about to be made: notes how low the debt is. */
export function notePayment(bucket: WorkingBucket, limit: Limit, book: HoldBook, nowUs: number): void {
  if (limit.algorithm !== Algorithm.tokenBucket || limit.isConcurrent) return;
  book.of(bucket.bucketKey)?.lows.notePayment(tokenBucket.debtAt(bucket.state, limit, nowUs));
}

/** True if a payment of the take may open a hold. */
export function opensHold({ limit, holdId }: Take): boolean {
  return limit.holdSeconds > 0 && (limit.isConcurrent || holdId !== "");
}

/**
 * Ends the hold of a payment that is given back, with what it has paid. If there is none any more, because it has ended or was
 * settled, nothing is left to give back.
 */
export function closeHold(bucket: WorkingBucket, take: Take, cost: number, book: HoldBook, nowUs: number): void {
  const { limit, holdId, paidAtUs } = take;
  const holds = book.of(take.bucketKey);
  const hold = opensHold(take) ? holds?.paidAt(holdId, paidAtUs) : undefined;
  if (holds !== undefined && hold !== undefined) {
    giveBackHeld(bucket, limit, holds, hold, cost, nowUs);
    book.remove(holds, hold);
    return;
  }
  // Where another's hold has the id, this payment was final and has none of its own; so it is without an id.
  const wasFinal = !opensHold(take) || holds?.find(holdId) !== undefined;
  if (wasFinal) giveBackCost(bucket, limit, cost, paidAtUs, nowUs);
}

/** Opens a hold for what the take has paid; true if it did. A payment under a known id is final, but on what counts holds. */
export function openHold(take: Take, book: HoldBook, nowUs: number): boolean {
  const { bucketKey, holdId, limit, cost, paidAtUs } = take;
  const isKnown = book.of(bucketKey)?.find(holdId) !== undefined || book.isSettled(bucketKey, holdId, nowUs);
  if (!limit.isConcurrent && (isKnown || holdId === "")) return false;
  const id = isKnown ? "" : holdId;
  const endsAtUs = nowUs + limit.holdSeconds * MICROS_PER_SECOND;
  book.add(bucketKey, limit, take.stats, { id, cost, paidAtUs, endsAtUs });
  return true;
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
    notePayment(bucket, limit, book, nowUs);
    return postPayCost(bucket, limit, take.cost, nowUs);
  }
  holds.countIn(take.stats);
  take.counted = hold.cost;
  const used = limit.isConcurrent ? 0 : take.cost;
  if (used < hold.cost) giveBackHeld(bucket, limit, holds, hold, hold.cost - used, nowUs);
  book.remove(holds, hold);
  noteSettled(take, book, nowUs);
  if (used <= hold.cost) return 0;
  notePayment(bucket, limit, book, nowUs);
  return postPayCost(bucket, limit, used - hold.cost, nowUs);
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
