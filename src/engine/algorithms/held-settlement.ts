// Settles groups with holds: what Settlement does, and in each of its steps what a limit with holds needs besides.
// Takes of the same group on limits without holds are settled as by Settlement.
//
//   open        holds that have ended are given back, which is written in any case
//   judge, pay  a refusal waits for holds that end; each payment of a token bucket notes its debt (debt-lows.ts)
//   verdict     settlements; then payments open their holds, and peeks count live ones

import type { KeyHash } from "../domain/key-bytes.ts";
import { HOLDS_FULL_ERROR, type Limit } from "../domain/limit.ts";
import { Mode, Outcome, Source, type Take, TakeGroup, Verdict } from "../domain/take.ts";
import type { HoldBook } from "./hold-book.ts";
import { closeHold, notePayment, openHold, opensHold, openWithHolds, settleHold, tellWait } from "./holds.ts";
import { Settlement } from "./settlement.ts";
import type { BucketAccess, WorkingBucket } from "./working-bucket.ts";

/** Settles groups as Settlement does. `holds`: the live holds of all buckets of the store. */
export class HeldSettlement extends Settlement {
  readonly #holds: HoldBook;
  /** For buckets whose holds end while no call asks about them. */
  readonly #asked = new TakeGroup();

  constructor(access: BucketAccess, holds: HoldBook) {
    super(access);
    this.#holds = holds;
  }

  override settle(group: TakeGroup, nowUs: number): void {
    this.reset();
    if (this.#hasRoom(group, nowUs)) {
      this.settleOpened(group, nowUs);
      return;
    }
    this.saveOpened(nowUs);
    group.verdict = Verdict.failed;
    group.failure = HOLDS_FULL_ERROR;
    group.source = Source.store;
  }

  /** Ends expired holds of a bucket that HoldBook.nextEnded has found. */
  endHolds(bucket: KeyHash, limit: Limit, nowUs: number): void {
    this.#asked.reset();
    const take = this.#asked.add(limit);
    take.useHash(bucket);
    this.reset();
    this.open(take, nowUs);
    this.saveOpened(nowUs);
  }

  /** Drops the bucket of the take, and its holds. */
  override forget(take: Take, nowUs: number): void {
    take.needKeyBytes();
    this.#holds.drop(take);
    super.forget(take, nowUs);
  }

  protected override reset(): void {
    super.reset();
    this.#holds.beginStep();
  }

  protected override save(nowUs: number): void {
    super.save(nowUs);
    this.#holds.endStep();
  }

  /** The bucket of `concurrent` is kept nowhere: its use is its number of live holds. */
  protected override write(bucket: WorkingBucket, nowUs: number): void {
    if (bucket.limit?.isConcurrent !== true) super.write(bucket, nowUs);
  }

  protected override load(bucket: WorkingBucket, limit: Limit, nowUs: number): boolean {
    if (limit.holdSeconds === 0) return super.load(bucket, limit, nowUs);
    return openWithHolds(bucket, limit, this.access, this.#holds, nowUs);
  }

  protected override judgeCost(bucket: WorkingBucket, take: Take, nowUs: number): void {
    super.judgeCost(bucket, take, nowUs);
    if (take.limit.holdSeconds > 0 && take.outcome !== Outcome.room) tellWait(bucket, take, this.#holds, nowUs);
  }

  protected override pay(bucket: WorkingBucket, take: Take, nowUs: number): void {
    if (take.limit.holdSeconds > 0) notePayment(bucket, take.limit, this.#holds, nowUs);
    super.pay(bucket, take, nowUs);
  }

  protected override keepAdmitted(group: TakeGroup, nowUs: number): void {
    super.keepAdmitted(group, nowUs);
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.limit.holdSeconds === 0) continue;
      if (take.mode === Mode.pay) take.openedHold = take.paid && openHold(take, this.#holds, nowUs);
    }
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.limit.holdSeconds > 0 && take.mode === Mode.peek) take.liveHolds = this.#liveHolds(take);
    }
  }

  protected override keepOne(take: Take, bucket: WorkingBucket, nowUs: number): void {
    super.keepOne(take, bucket, nowUs);
    if (take.mode !== Mode.settle) return;
    take.cappedHits = settleHold(bucket, take, this.#holds, nowUs);
    take.paid = true;
  }

  protected override giveBackTake(bucket: WorkingBucket, take: Take, cost: number, nowUs: number): void {
    if (take.limit.holdSeconds > 0) closeHold(bucket, take, cost, this.#holds, nowUs);
    else super.giveBackTake(bucket, take, cost, nowUs);
  }

  #liveHolds(take: Take): number {
    const holds = this.#holds.of(take);
    return holds === undefined ? 0 : this.#holds.sizeOf(holds);
  }

  /** Whether each payment can open its hold. */
  #hasRoom(group: TakeGroup, nowUs: number): boolean {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      take.needKeyBytes();
      if (take.mode !== Mode.pay || !opensHold(take) || this.#holds.hasRoom(take)) continue;
      // Some of them may have ended.
      this.open(take, nowUs);
      if (!this.#holds.hasRoom(take)) return false;
    }
    return true;
  }
}
