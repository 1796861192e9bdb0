// Settles the takes of one call as a whole, so that a refused call pays nothing. The buckets belong to a BucketAccess.
// The memory store, the PostgreSQL store and the reference model of the tests settle here; lua/take.lua does the same
// in Redis.
//
//   read, advance    WorkingSet.open: a copy of each bucket, brought to now; holds that have ended are given back
//   judge, pay       each descriptor on the copies that earlier ones have paid; `undo` takes the payments of one that is over back
//                    from the copies, exactly. Then the verdict stands, and nothing has been written but the end of holds
//   refund, holds    what passes in any case: refunds, settlements, and the holds of what was paid
//   report, write    answers from the copies; copies that changed are saved
//
// A take that may pass in one of two ways, on other buckets or with less room, is tried again on the same copies:
// `judge` changes nothing, so the first way is judged on all its buckets before any of them is paid, and if one has no
// room, the second way is judged. It belongs into #judgeTake, before `pay`; #undo, the reports and the write know only
// what was paid in the end.

import { NO_SHIFT } from "../../base/clock.ts";
import { StoreError } from "../../base/errors.ts";
import { InvariantError } from "../../base/invariant.ts";
import type { KeyHash } from "../domain/key-bytes.ts";
import { Algorithm, HOLDS_FULL_ERROR, type Limit, WAIT_US_MAX } from "../domain/limit.ts";
import { Mode, Outcome, Source, type Take, TakeGroup, Verdict } from "../domain/take.ts";
import { costToReturn, isGroupRefused } from "../domain/verdict.ts";
import { calendarWindow } from "./calendar-window.ts";
import { fixedWindow } from "./fixed-window.ts";
import { closeHold, notePayment, openHold, opensHold, openWithHolds, settleHold, tellWait } from "./holds.ts";
import { slidingLog } from "./sliding-log.ts";
import { slidingWindow } from "./sliding-window.ts";
import { tokenBucket } from "./token-bucket.ts";
import { type BucketAccess, type Report, type Step, WorkingBucket } from "./working-bucket.ts";

const LIFETIME_MIN_US = 1_000;

const LOGS_FULL = new StoreError(
  "STORE_LOGS_FULL",
  "expected room for a payment of a sliding log; raise BUCKETS_MAX, which gives logs 134 bytes per bucket",
);

/**
 * Settles groups synchronously, and never throws. All or nothing: the limits of a descriptor are paid together or not
 * at all, and the descriptors of a call too. Post-paid hits and refunds are kept in any case. A refusal without these
 * writes nothing, but extends the lifetime of a bucket whose rate was lowered since it was written. A payment for which
 * a sliding log has no memory is left unanswered; the answers of the other takes are valid.
 */
export class Settlement {
  readonly #access: BucketAccess;
  readonly #working: WorkingSet;
  #hasUnanswered = false;
  /** The bucket of each take of the group, by the take's index. */
  readonly #bucketOf: WorkingBucket[] = [];
  /** Receives the bucket's state after a payment was given back; the take's own answer does not change. */
  readonly #standing: Report = { remaining: 0, resetUs: 0 };
  /** For buckets whose holds end while no call asks about them. */
  readonly #asked = new TakeGroup();

  constructor(access: BucketAccess) {
    this.#access = access;
    this.#working = new WorkingSet(access);
  }

  /** Writes the group's verdict and the answer of each take, and saves the buckets that changed. */
  settle(group: TakeGroup, nowUs: number): void {
    this.#working.reset();
    if (group.takesWithHolds > 0 && !this.#hasRoomForHolds(group, nowUs)) {
      this.#keepOpened(nowUs);
      group.verdict = Verdict.failed;
      group.failure = HOLDS_FULL_ERROR;
      group.source = Source.store;
      return;
    }
    const refused = this.#judge(group, nowUs);
    if (refused) this.#undo(group, 0, group.size);
    // The verdict stands. From here on holds and buckets are written.
    this.#refund(group, nowUs);
    if (group.takesWithHolds > 0) {
      this.#openHolds(group, nowUs);
      this.#countHolds(group);
    }
    this.#report(group, nowUs);
    this.#save(nowUs);
    group.verdict = refused ? Verdict.refused : this.#hasUnanswered ? Verdict.failed : Verdict.allowed;
    if (group.verdict === Verdict.failed) group.failure = LOGS_FULL;
    group.source = Source.store;
  }

  /** Gives back what the group paid, each payment in the window of its payment. Returns how many takes had paid. */
  giveBack(group: TakeGroup, nowUs: number): number {
    let paidTakes = 0;
    for (let i = 0; i < group.size; i++) {
      const take = takeAt(group, i);
      const cost = take.paid ? costToReturn(take) : 0;
      if (cost === 0) continue;
      paidTakes++;
      // One take at a time, as in a shared store, where a batch brings the payments of many calls.
      this.#working.reset();
      const bucket = this.#working.open(take, nowUs);
      if (take.limit.holdSeconds > 0) closeHold(bucket, take, cost, this.#access.holds, nowUs);
      else bucket.step.giveBack(bucket.kept, take.limit, cost, take.paidAtUs, nowUs);
      this.#keepOpened(nowUs);
    }
    return paidTakes;
  }

  /** Ends expired holds of a bucket that HoldBook.nextEnded has found. */
  endHolds(bucket: KeyHash, limit: Limit, nowUs: number): void {
    this.#asked.reset();
    const take = this.#asked.add(limit);
    take.useHash(bucket);
    this.#working.reset();
    this.#working.open(take, nowUs);
    this.#keepOpened(nowUs);
  }

  /** Drops the bucket of the take, and its holds. */
  forget(take: Take, nowUs: number): void {
    take.needKeyBytes();
    this.#working.reset();
    this.#access.holds.drop(take);
    this.#access.remove(this.#working.open(take, nowUs));
  }

  /**
   * Saves buckets whose states are not reported to takes: what was given back, and what holds that have ended gave
   * back.
   */
  #keepOpened(nowUs: number): void {
    const { buckets, size } = this.#working;
    for (let i = 0; i < size; i++) {
      const { step, kept, limit } = buckets[i] as WorkingBucket;
      step.report(kept, limit as Limit, nowUs, this.#standing);
      keepFor(buckets[i] as WorkingBucket, this.#standing.resetUs);
    }
    this.#save(nowUs);
  }

  #hasRoomForHolds(group: TakeGroup, nowUs: number): boolean {
    for (let i = 0; i < group.size; i++) {
      const take = takeAt(group, i);
      take.needKeyBytes();
      if (take.mode !== Mode.pay || !opensHold(take) || this.#access.holds.hasRoom(take)) continue;
      // Some of them may have ended.
      this.#working.open(take, nowUs);
      if (!this.#access.holds.hasRoom(take)) return false;
    }
    return true;
  }

  #openHolds(group: TakeGroup, nowUs: number): void {
    for (let i = 0; i < group.size; i++) {
      const take = takeAt(group, i);
      if (take.mode !== Mode.pay || take.limit.holdSeconds === 0) continue;
      take.openedHold = take.paid && openHold(take, this.#access.holds, nowUs);
    }
  }

  /** Writes the number of live holds into the peeks. */
  #countHolds(group: TakeGroup): void {
    for (let i = 0; i < group.size; i++) {
      const take = takeAt(group, i);
      if (take.mode !== Mode.peek || take.limit.holdSeconds === 0) continue;
      const holds = this.#access.holds.of(take);
      take.liveHolds = holds === undefined ? 0 : this.#access.holds.sizeOf(holds);
    }
  }

  /**
   * Judges each descriptor on the state that earlier descriptors left, and pays it tentatively. True if the call is
   * refused.
   */
  #judge(group: TakeGroup, nowUs: number): boolean {
    this.#hasUnanswered = false;
    let isAnyOver = false;
    let end = 0;
    for (let start = 0; start < group.size; start = end) {
      const { descriptor } = takeAt(group, start);
      let isOver = false;
      for (end = start; end < group.size; end++) {
        const take = takeAt(group, end);
        if (take.descriptor !== descriptor) break;
        if (this.#judgeTake(take, end, nowUs)) isOver = true;
      }
      if (!isOver) continue;
      isAnyOver = true;
      this.#undo(group, start, end);
    }
    return isAnyOver && isGroupRefused(group);
  }

  /** True if the take puts its descriptor over. */
  #judgeTake(take: Take, index: number, nowUs: number): boolean {
    const bucket = this.#working.open(take, nowUs);
    this.#bucketOf[index] = bucket;
    take.paid = false;
    take.paidAtUs = 0;
    take.cappedHits = 0;
    if (take.mode === Mode.refund || take.mode === Mode.postPaid || take.mode === Mode.settle) {
      take.outcome = Outcome.room;
      take.waitUs = 0;
      if (take.mode === Mode.postPaid && this.#hasPlace(take, bucket)) {
        if (take.limit.holdSeconds > 0) notePayment(bucket, take.limit, this.#access.holds, nowUs);
        take.cappedHits = bucket.step.postPay(bucket.kept, take.limit, take.cost, nowUs);
        markPaid(take, bucket, nowUs);
      }
      return false;
    }
    bucket.step.judge(bucket.kept, take.limit, take.cost, nowUs, take);
    if (take.outcome !== Outcome.room) {
      if (take.limit.holdSeconds > 0) tellWait(bucket, take, this.#access.holds, nowUs);
      return true;
    }
    if (take.mode === Mode.pay && this.#hasPlace(take, bucket)) {
      if (take.limit.holdSeconds > 0) notePayment(bucket, take.limit, this.#access.holds, nowUs);
      bucket.step.pay(bucket.kept, take.cost);
      markPaid(take, bucket, nowUs);
    }
    return false;
  }

  /** True if there is memory for the payment. If not, the take becomes unanswered. */
  #hasPlace(take: Take, bucket: WorkingBucket): boolean {
    if (bucket.log === undefined || this.#access.hasRoomForPayment(bucket.log)) return true;
    take.outcome = Outcome.unanswered;
    this.#hasUnanswered = true;
    return false;
  }

  /** Undoes the tentative payments of the takes from `start` to `end`; post-paid ones stay. */
  #undo(group: TakeGroup, start: number, end: number): void {
    for (let i = start; i < end; i++) {
      const take = takeAt(group, i);
      const bucket = this.#bucketOf[i];
      if (bucket === undefined || !take.paid || take.mode !== Mode.pay) continue;
      bucket.step.undo(bucket.kept, take.cost);
      take.paid = false;
      take.paidAtUs = 0;
    }
  }

  /** Applies refunds and settlements. They come last, so that no take of the same call passes because of them. */
  #refund(group: TakeGroup, nowUs: number): void {
    for (let i = 0; i < group.size; i++) {
      const take = takeAt(group, i);
      const bucket = this.#bucketOf[i];
      if (bucket === undefined) continue;
      if (take.mode === Mode.refund) {
        bucket.step.refund(bucket.kept, take.limit, take.cost, nowUs);
        markPaid(take, bucket, nowUs);
      } else if (take.mode === Mode.settle) {
        take.cappedHits = settleHold(bucket, take, this.#access.holds, nowUs);
        take.paid = true;
      }
    }
  }

  #report(group: TakeGroup, nowUs: number): void {
    for (let i = 0; i < group.size; i++) {
      const take = takeAt(group, i);
      const bucket = this.#bucketOf[i];
      if (bucket === undefined) continue;
      bucket.step.report(bucket.kept, take.limit, nowUs, take);
      keepFor(bucket, take.resetUs);
    }
  }

  #save(nowUs: number): void {
    const { buckets, size } = this.#working;
    for (let i = 0; i < size; i++) {
      const bucket = buckets[i];
      if (bucket === undefined || bucket.limit?.isConcurrent) continue;
      if (!bucket.hasChanged) {
        // Its lifetime was set by the rate of the last payment; a lower rate needs a longer one. Not so for windows:
        // their length is part of the bucket key.
        if (bucket.algorithm === Algorithm.tokenBucket && bucket.used > 0)
          this.#access.extend(bucket, nowUs + bucket.lifetimeUs);
        continue;
      }
      if (bucket.step.isAsNew(bucket.kept)) this.#access.remove(bucket);
      else this.#access.save(bucket, nowUs + Math.min(Math.max(bucket.lifetimeUs, LIFETIME_MIN_US), WAIT_US_MAX));
    }
    this.#access.holds.endStep();
  }
}

/** Limits that share a bucket may differ in amount (an override and a rule): the longest lifetime counts. */
function keepFor(bucket: WorkingBucket, resetUs: number): void {
  bucket.lifetimeUs = Math.max(bucket.lifetimeUs, resetUs);
}

function markPaid(take: Take, bucket: WorkingBucket, nowUs: number): void {
  take.paid = true;
  take.paidAtUs = bucket.step.paidAtUs(bucket.kept, nowUs);
}

function takeAt(group: TakeGroup, index: number): Take {
  const take = group.takes[index];
  if (take === undefined) throw new InvariantError(`a group of ${group.size} has a take ${index}`);
  return take;
}

/** The Step of each algorithm. */
const STEPS: Readonly<Record<Algorithm, Step>> = {
  [Algorithm.tokenBucket]: tokenBucket,
  [Algorithm.slidingWindow]: slidingWindow,
  [Algorithm.fixedWindow]: fixedWindow,
  [Algorithm.slidingLog]: slidingLog,
  [Algorithm.calendarWindow]: calendarWindow,
};

/** The buckets of the group being settled: one per key, however many takes are on it. Reused from group to group. */
class WorkingSet {
  readonly #access: BucketAccess;
  /** Pooled. The first `size` belong to the group. */
  readonly buckets: WorkingBucket[] = [];
  size = 0;

  constructor(access: BucketAccess) {
    this.#access = access;
  }

  /** Empties the set for the next group. */
  reset(): void {
    this.#access.holds.beginStep();
    this.size = 0;
  }

  /** The bucket of the take. The first take on it loads it and brings it to `nowUs`. */
  open(take: Take, nowUs: number): WorkingBucket {
    take.limit.calendar?.turnTo(nowUs + (this.#access.shift ?? NO_SHIFT).us);
    take.needKeyBytes();
    for (let i = 0; i < this.size; i++) {
      const bucket = this.buckets[i] as WorkingBucket;
      if (!bucket.hasKeyOf(take)) continue;
      if (bucket.limit !== take.limit) handOver(bucket, take.limit, nowUs);
      return bucket;
    }
    return this.#load(take, nowUs);
  }

  #load(take: Take, nowUs: number): WorkingBucket {
    const { limit } = take;
    const bucket = this.#nextBucket();
    bucket.useKeyOf(take);
    bucket.algorithm = limit.algorithm;
    bucket.step = STEPS[limit.algorithm];
    bucket.limit = limit;
    bucket.log = undefined;
    if (limit.algorithm === Algorithm.slidingLog) bucket.useLog();
    bucket.lifetimeUs = 0;
    bucket.isChangedByTime = false;
    bucket.place = -1;
    if (limit.holdSeconds > 0) bucket.isChangedByTime = openWithHolds(bucket, limit, this.#access, nowUs);
    else if (this.#access.load(bucket)) bucket.isChangedByTime = bucket.step.advance(bucket.kept, limit, nowUs);
    else bucket.step.clear(bucket.kept, limit, nowUs);
    bucket.markOpened();
    return bucket;
  }

  #nextBucket(): WorkingBucket {
    let bucket = this.buckets[this.size];
    if (bucket === undefined) {
      bucket = new WorkingBucket(tokenBucket);
      bucket.state.shift = this.#access.shift ?? NO_SHIFT;
      this.buckets[this.size] = bucket;
    }
    this.size++;
    return bucket;
  }
}

/** Prepares an open bucket for another limit: the refill so far is counted under the limit under which it passed. */
function handOver(bucket: WorkingBucket, limit: Limit, nowUs: number): void {
  const { state, limit: from } = bucket;
  bucket.limit = limit;
  if (from === undefined || bucket.algorithm !== Algorithm.tokenBucket) return;
  const before = state.used;
  tokenBucket.settle(state, from, nowUs);
  // Refill by time alone is no change that must be written.
  bucket.openedUsed += state.used - before;
}
