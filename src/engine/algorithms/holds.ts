// Applies holds to their buckets. A payment on a limit with holds waits for its settlement, which corrects it to what
// was used. A hold that is not settled in time is given back as of the moment of its end, however late the end is
// noticed. lua/holds.lua does the same in Redis; test/property/agreement.ts keeps them equal.

import { MICROS_PER_SECOND, MICROS_PER_TOKEN } from "../../base/units.ts";
import { Algorithm, type Limit } from "../domain/limit.ts";
import { HoldFound, Outcome, type Take } from "../domain/take.ts";
import type { BucketHolds, Hold, HoldBook } from "./hold-book.ts";
import { tokenBucket } from "./token-bucket.ts";
import type { BucketAccess, WorkingBucket } from "./working-bucket.ts";

/** Shortest wait in a refusal by `concurrent`, unless the next hold ends sooner. */
const WAIT_US_MIN = MICROS_PER_SECOND;
/**
 * Holds that the wait of a refusal takes into account; if they make no room, it is the end of the next one.
 * lua/holds.lua has the same.
 */
const LOOKS_MAX = 4;

/**
 * Opens a bucket with holds and brings it to `nowUs`. Holds that have ended are given back, each as of the time of its
 * end. True if a kept bucket's date was moved to now or its holds have ended. The bucket of `concurrent` is kept
 * nowhere: its use is its number of live holds.
 */
export function openWithHolds(
  bucket: WorkingBucket,
  limit: Limit,
  access: BucketAccess,
  book: HoldBook,
  nowUs: number,
): boolean {
  const holds = book.of(bucket);
  const isKept = !limit.isConcurrent && access.load(bucket);
  if (!isKept) bucket.step.clear(bucket.kept, limit, nowUs);
  const haveEnded = holds !== undefined && expireHolds(bucket, limit, holds, book, nowUs);
  if (limit.isConcurrent && holds !== undefined) tokenBucket.pay(bucket.state, book.sizeOf(holds));
  return isKept && (bucket.step.advance(bucket.kept, limit, nowUs) || haveEnded);
}

function expireHolds(bucket: WorkingBucket, limit: Limit, holds: BucketHolds, book: HoldBook, nowUs: number): boolean {
  let count = 0;
  for (let hold = book.first(holds); hold !== undefined; hold = book.first(holds)) {
    if (hold.endsAtUs > nowUs || !book.mayEndOne()) break;
    count++;
    book.countExpired(holds, 1);
    const atUs = Math.min(nowUs, Math.max(hold.endsAtUs, bucket.state.atUs));
    bucket.step.advance(bucket.kept, limit, atUs);
    giveBackHeld(bucket, limit, holds, hold, hold.cost, atUs);
    book.remove(holds, hold);
  }
  return count > 0;
}

/**
 * Gives back `cost` of what the hold has paid. For a token bucket this is exact: at most what is still owed, and at
 * most the lowest debt since the payment (DebtLows).
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
    bucket.step.giveBack(bucket.kept, limit, cost, hold.paidAtUs, nowUs);
    return;
  }
  const owed = tokenBucket.debtAt(bucket.state, limit, nowUs);
  const debt = Math.min(cost * MICROS_PER_TOKEN, holds.lows.since(hold.payment), owed);
  tokenBucket.takeOff(bucket.state, limit, debt, nowUs);
  holds.lows.takeOff(hold.payment, debt);
}

/** Must be called before each payment on a limit with holds: records the debt of a token bucket (DebtLows). */
export function notePayment(bucket: WorkingBucket, limit: Limit, book: HoldBook, nowUs: number): void {
  if (limit.algorithm !== Algorithm.tokenBucket || limit.isConcurrent) return;
  book.of(bucket)?.lows.notePayment(tokenBucket.debtAt(bucket.state, limit, nowUs));
}

/** True if a payment of the take may open a hold. */
export function opensHold({ limit, holdId }: Take): boolean {
  return limit.holdSeconds > 0 && (limit.isConcurrent || holdId !== "");
}

/**
 * Gives back a payment and ends its hold. If the hold has ended or was settled before, nothing is left to give back. A
 * payment that opened no hold is given back as without holds.
 */
export function closeHold(bucket: WorkingBucket, take: Take, cost: number, book: HoldBook, nowUs: number): void {
  const { limit, holdId, paidAtUs } = take;
  const holds = book.of(take);
  const named = book.find(take, holdId, nowUs);
  const endsAtUs = paidAtUs + limit.holdSeconds * MICROS_PER_SECOND;
  if (holds !== undefined) {
    const isNamed = named?.paidAtUs === paidAtUs;
    const hold = isNamed ? named : limit.isConcurrent ? book.findNameless(holds, paidAtUs, endsAtUs) : undefined;
    if (hold !== undefined) {
      giveBackHeld(bucket, limit, holds, hold, cost, nowUs);
      book.remove(holds, hold);
      return;
    }
  }
  // The payment opened no hold if it had no id, or if another payment's hold has its id before its own could have
  // ended.
  const isOfAnother = named !== undefined && nowUs < endsAtUs;
  if (isOfAnother || !opensHold(take)) bucket.step.giveBack(bucket.kept, limit, cost, paidAtUs, nowUs);
}

/**
 * Opens a hold for what the take has paid; true if it did. A payment whose id is already known opens none and is final,
 * except on a `concurrent` limit, where the hold is opened without an id.
 */
export function openHold(take: Take, book: HoldBook, nowUs: number): boolean {
  const { holdId, limit, cost, paidAtUs } = take;
  const isKnown = book.knows(take, holdId, nowUs);
  if (!limit.isConcurrent && (isKnown || holdId === "")) return false;
  const id = isKnown ? "" : holdId;
  const endsAtUs = nowUs + limit.holdSeconds * MICROS_PER_SECOND;
  book.add(take, limit, take.stats, { id, cost, paidAtUs, endsAtUs });
  return true;
}

/**
 * Settles the take's hold: gives back what was held and not used, or charges what was used beyond. Without a live hold
 * the whole use is charged, once; a `concurrent` limit charges nothing, but its id is settled, too. Writes `take.held`.
 * Returns the hits that could not be recorded.
 */
export function settleHold(bucket: WorkingBucket, take: Take, book: HoldBook, nowUs: number): number {
  const { holdId, limit } = take;
  const holds = book.of(take);
  const hold = book.find(take, holdId, nowUs);
  if (holds === undefined || hold === undefined) {
    const isSettled = book.forgetAtUs(take, holdId) > nowUs;
    take.held = isSettled ? HoldFound.settled : HoldFound.none;
    if (isSettled) return 0;
    noteSettled(take, book, nowUs);
    if (limit.isConcurrent) return 0;
    notePayment(bucket, limit, book, nowUs);
    return bucket.step.postPay(bucket.kept, limit, take.cost, nowUs);
  }
  book.countIn(holds, take.stats);
  take.held = hold.cost;
  const used = limit.isConcurrent ? 0 : take.cost;
  if (used < hold.cost) giveBackHeld(bucket, limit, holds, hold, hold.cost - used, nowUs);
  book.remove(holds, hold);
  noteSettled(take, book, nowUs);
  if (used <= hold.cost) return 0;
  notePayment(bucket, limit, book, nowUs);
  return bucket.step.postPay(bucket.kept, limit, used - hold.cost, nowUs);
}

function noteSettled(take: Take, book: HoldBook, nowUs: number): void {
  book.noteSettled(take, take.holdId, nowUs, nowUs + take.limit.holdSeconds * MICROS_PER_SECOND);
}

/**
 * Writes `waitUs` of a refused take: until its cost returns by itself, or until holds that end make room for it if that
 * is sooner. Never later than the cost would pass if nobody settled, asked or paid meanwhile.
 */
export function tellWait(bucket: WorkingBucket, take: Take, book: HoldBook, nowUs: number): void {
  const holds = book.of(take);
  let hold = holds === undefined ? undefined : book.first(holds);
  if (holds === undefined || hold === undefined) return;
  const { limit, cost } = take;
  if (limit.isConcurrent) take.waitUs = waitForHold(hold, book.sizeOf(holds), nowUs);
  if (limit.isConcurrent || take.outcome === Outcome.never) return;
  const { state } = bucket;
  const { used } = state;
  for (let looks = 0; hold !== undefined; hold = book.next(hold), looks++) {
    const endsInUs = Math.max(1, hold.endsAtUs - nowUs);
    if (looks === LOOKS_MAX) take.waitUs = Math.min(take.waitUs, endsInUs);
    if (take.waitUs <= endsInUs) break;
    if (limit.algorithm === Algorithm.tokenBucket)
      state.used -= Math.min(hold.cost * MICROS_PER_TOKEN, holds.lows.since(hold.payment));
    // What was paid in an earlier window is not given back.
    else if (hold.paidAtUs >= state.atUs) state.used -= hold.cost;
    bucket.step.judge(state, limit, cost, nowUs, take);
    take.waitUs = Math.max(endsInUs, take.waitUs);
  }
  state.used = used;
  take.outcome = Outcome.over;
}

/**
 * Microseconds after which a caller that `concurrent` refused may try again. An estimate: if holds open at even
 * intervals, the next one ends after about the oldest one's age divided by their number. At least WAIT_US_MIN, at most
 * until the first hold ends.
 */
function waitForHold(first: Hold, count: number, nowUs: number): number {
  const ageUs = Math.max(0, nowUs - first.paidAtUs);
  return Math.min(Math.max(1, first.endsAtUs - nowUs), Math.max(WAIT_US_MIN, Math.floor(ageUs / count)));
}
