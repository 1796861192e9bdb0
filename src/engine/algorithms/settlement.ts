// Settles the takes of one call as a whole, so that a refused call pays nothing. The buckets belong to a BucketAccess.
// The memory store, the PostgreSQL store and the reference model of the tests settle here; lua/take.lua does the same
// in Redis. held-settlement.ts settles groups with holds.
//
//   read, advance    `open`: a copy of each bucket, brought to now
//   judge, pay       each descriptor on the copies that earlier ones have paid; `undo` takes the payments of one that
//                    is over back from the copies, exactly. Then the verdict stands, and nothing has been written
//   refund           what passes in any case
//   report, write    answers from the copies; copies that changed are saved
//
// A take that may pass in one of two ways (engine/domain/guarantee.ts): the take of the guarantee before it decides by
// which of its two limits it is judged. `judge` changes nothing, so both buckets of the first way are judged before any
// of them is paid. #undo, the reports and the write know only what was paid in the end.

import { NO_SHIFT } from "../../base/clock.ts";
import { StoreError } from "../../base/errors.ts";
import { InvariantError } from "../../base/invariant.ts";
import { Algorithm, type Limit, WAIT_US_MAX } from "../domain/limit.ts";
import { Mode, Outcome, Source, type Take, type TakeGroup, Verdict } from "../domain/take.ts";
import { costToReturn, isGroupRefused } from "../domain/verdict.ts";
import { calendarWindow } from "./calendar-window.ts";
import { fixedWindow } from "./fixed-window.ts";
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
  protected readonly access: BucketAccess;
  /** The buckets of the group, one per key, however many takes are on it. Pooled: the first `#openCount` are in use. */
  readonly #open: WorkingBucket[] = [];
  #openCount = 0;
  /** The bucket of each take of the group, by the take's index. */
  readonly #bucketOf: WorkingBucket[] = [];
  #hasUnanswered = false;
  /** Receives the bucket's state after a payment was given back; the take's own answer does not change. */
  readonly #standing: Report = { remaining: 0, resetUs: 0 };

  constructor(access: BucketAccess) {
    this.access = access;
  }

  /** Writes the group's verdict and the answer of each take, and saves the buckets that changed. */
  settle(group: TakeGroup, nowUs: number): void {
    this.reset();
    this.settleOpened(group, nowUs);
  }

  /** The same, on the buckets that are open. */
  protected settleOpened(group: TakeGroup, nowUs: number): void {
    const refused = this.#judge(group, nowUs);
    if (refused) this.#undo(group, 0, group.size);
    // The verdict stands.
    this.keepAdmitted(group, nowUs);
    for (let i = 0; i < group.size; i++) this.#report(takeAt(group, i), this.#bucketAt(i), nowUs);
    this.save(nowUs);
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
      this.reset();
      this.giveBackTake(this.open(take, nowUs), take, cost, nowUs);
      this.saveOpened(nowUs);
    }
    return paidTakes;
  }

  /** Drops the bucket of the take. */
  forget(take: Take, nowUs: number): void {
    this.reset();
    this.access.remove(this.open(take, nowUs));
  }

  /** Begins a step: no bucket is open. */
  protected reset(): void {
    this.#openCount = 0;
  }

  /** The bucket of the take. The first take on it loads it and brings it to `nowUs`. */
  protected open(take: Take, nowUs: number): WorkingBucket {
    const { limit } = take;
    limit.calendar?.turnTo(nowUs + (this.access.shift ?? NO_SHIFT).us);
    take.needKeyBytes();
    for (let i = 0; i < this.#openCount; i++) {
      const bucket = this.#open[i] as WorkingBucket;
      if (!bucket.hasKeyOf(take)) continue;
      if (bucket.limit !== limit) handOver(bucket, limit, nowUs);
      return bucket;
    }
    const bucket = this.#nextBucket();
    bucket.begin(take, STEPS[limit.algorithm]);
    bucket.isChangedByTime = this.load(bucket, limit, nowUs);
    bucket.markOpened();
    return bucket;
  }

  #nextBucket(): WorkingBucket {
    let bucket = this.#open[this.#openCount];
    if (bucket === undefined) {
      bucket = new WorkingBucket(tokenBucket);
      bucket.state.shift = this.access.shift ?? NO_SHIFT;
      this.#open[this.#openCount] = bucket;
    }
    this.#openCount++;
    return bucket;
  }

  /**
   * Fills the bucket from what is kept, and brings it to `nowUs`. True if it must be written even if nothing is paid.
   */
  protected load(bucket: WorkingBucket, limit: Limit, nowUs: number): boolean {
    if (this.access.load(bucket)) return bucket.step.advance(bucket.kept, limit, nowUs);
    bucket.step.clear(bucket.kept, limit, nowUs);
    return false;
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
        if (this.#judgeTake(take, end, group, nowUs)) isOver = true;
      }
      if (!isOver) continue;
      isAnyOver = true;
      this.#undo(group, start, end);
    }
    return isAnyOver && isGroupRefused(group);
  }

  /** True if the take puts its descriptor over. */
  #judgeTake(take: Take, index: number, group: TakeGroup, nowUs: number): boolean {
    const bucket = this.open(take, nowUs);
    this.#bucketOf[index] = bucket;
    take.paid = false;
    take.paidAtUs = 0;
    take.cappedHits = 0;
    if (take.mode === Mode.pay || take.mode === Mode.peek) {
      this.judgeCost(bucket, take, nowUs);
      if (take.outcome !== Outcome.room) return true;
      if (take.mode === Mode.pay && this.#hasPlace(take, bucket)) this.pay(bucket, take, nowUs);
      return false;
    }
    if (take.mode === Mode.guarantee) {
      this.#judgeGuarantee(take, bucket, takeAt(group, index + 1), nowUs);
      return false;
    }
    // Its call was admitted before.
    take.outcome = Outcome.room;
    take.waitUs = 0;
    if (take.mode === Mode.postPaid && this.#hasPlace(take, bucket)) this.pay(bucket, take, nowUs);
    return false;
  }

  /** Writes whether the take's cost fits, and if not, how long to wait. */
  protected judgeCost(bucket: WorkingBucket, take: Take, nowUs: number): void {
    bucket.step.judge(bucket.kept, take.limit, take.cost, nowUs, take);
  }

  /** Pays on the copy. */
  protected pay(bucket: WorkingBucket, take: Take, nowUs: number): void {
    if (take.mode === Mode.pay) bucket.step.pay(bucket.kept, take.cost);
    else take.cappedHits = bucket.step.postPay(bucket.kept, take.limit, take.cost, nowUs);
    markPaid(take, bucket, nowUs);
  }

  /** Pays the guarantee if both it and the whole room of the shared limit have room; else the next take borrows. */
  #judgeGuarantee(take: Take, bucket: WorkingBucket, shared: Take, nowUs: number): void {
    const { covers: whole = shared.limit } = take.limit;
    shared.limit = whole;
    const room = this.open(shared, nowUs);
    room.step.judge(room.kept, whole, shared.cost, nowUs, take);
    const roomOutcome = take.outcome;
    const roomWaitUs = roomOutcome === Outcome.never ? WAIT_US_MAX : take.waitUs;
    bucket.step.judge(bucket.kept, take.limit, take.cost, nowUs, take);
    if (take.outcome === Outcome.room) {
      if (roomOutcome !== Outcome.room || shared.mode !== Mode.pay) return;
      bucket.step.pay(bucket.kept, take.cost);
      markPaid(take, bucket, nowUs);
      return;
    }
    take.waitUs = take.outcome === Outcome.never ? WAIT_US_MAX : Math.max(take.waitUs, roomWaitUs);
    take.outcome = Outcome.room;
    shared.limit = whole.priority?.low ?? whole;
  }

  /** True if there is memory for the payment. If not, the take becomes unanswered. */
  #hasPlace(take: Take, bucket: WorkingBucket): boolean {
    if (bucket.log === undefined || this.access.hasRoomForPayment(bucket.log)) return true;
    take.outcome = Outcome.unanswered;
    this.#hasUnanswered = true;
    return false;
  }

  /** Undoes the tentative payments of the takes from `start` to `end`; post-paid ones stay. */
  #undo(group: TakeGroup, start: number, end: number): void {
    for (let i = start; i < end; i++) {
      const take = takeAt(group, i);
      if (!take.paid || take.mode === Mode.postPaid) continue;
      const bucket = this.#bucketAt(i);
      bucket.step.undo(bucket.kept, take.cost);
      take.paid = false;
      take.paidAtUs = 0;
    }
  }

  /** Applies what passes whatever the verdict. It comes last, so that no take of the same call passes because of it. */
  protected keepAdmitted(group: TakeGroup, nowUs: number): void {
    for (let i = 0; i < group.size; i++) this.keepOne(takeAt(group, i), this.#bucketAt(i), nowUs);
  }

  /** Applies a refund; does nothing for other takes. */
  protected keepOne(take: Take, bucket: WorkingBucket, nowUs: number): void {
    if (take.mode !== Mode.refund) return;
    bucket.step.refund(bucket.kept, take.limit, take.cost, nowUs);
    markPaid(take, bucket, nowUs);
  }

  /** Gives back `cost` of what the take has paid. */
  protected giveBackTake(bucket: WorkingBucket, take: Take, cost: number, nowUs: number): void {
    const { limit, paidAtUs } = take;
    bucket.step.giveBack(bucket.kept, limit.covers ?? limit, cost, paidAtUs, nowUs);
  }

  #report(take: Take, bucket: WorkingBucket, nowUs: number): void {
    bucket.step.report(bucket.kept, take.limit, nowUs, take);
    keepFor(bucket, take.resetUs);
  }

  /** Saves buckets whose states are not reported to takes. */
  protected saveOpened(nowUs: number): void {
    for (let i = 0; i < this.#openCount; i++) {
      const bucket = this.#open[i] as WorkingBucket;
      bucket.step.report(bucket.kept, bucket.limit as Limit, nowUs, this.#standing);
      keepFor(bucket, this.#standing.resetUs);
    }
    this.save(nowUs);
  }

  /** Writes the buckets of the step, which ends. */
  protected save(nowUs: number): void {
    for (let i = 0; i < this.#openCount; i++) this.write(this.#open[i] as WorkingBucket, nowUs);
  }

  /** Keeps the bucket as it is now. */
  protected write(bucket: WorkingBucket, nowUs: number): void {
    if (bucket.hasChanged) {
      if (bucket.step.isAsNew(bucket.kept)) this.access.remove(bucket);
      else this.access.save(bucket, nowUs + Math.min(Math.max(bucket.lifetimeUs, LIFETIME_MIN_US), WAIT_US_MAX));
    } else if (bucket.algorithm === Algorithm.tokenBucket && bucket.used > 0) {
      // Its lifetime was set by the rate of the last payment; a lower rate needs a longer one. Not so for windows:
      // their length is part of the bucket key.
      this.access.extend(bucket, nowUs + bucket.lifetimeUs);
    }
  }

  #bucketAt(index: number): WorkingBucket {
    return this.#bucketOf[index] as WorkingBucket;
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

/** Prepares an open bucket for another limit: the refill so far is counted under the limit under which it passed. */
function handOver(bucket: WorkingBucket, limit: Limit, nowUs: number): void {
  const { state, limit: from } = bucket;
  bucket.limit = limit;
  if (from === undefined || bucket.algorithm !== Algorithm.tokenBucket) return;
  const before = state.used;
  tokenBucket.countRefill(state, from, nowUs);
  // Refill by time alone is no change that must be written.
  bucket.openedUsed += state.used - before;
}
