// sync: periodic. A process decides by the shared store's last answer about a bucket and by what it has spent since, and reports its spending
// once per period. The next decisions follow the answer to that report. tracked-bucket.ts does the accounting.

import { MICROS_PER_MILLI } from "../../engine/base/units.ts";
import { Mode, Outcome, Source, type Take, TakeGroup, Verdict } from "../../engine/domain/take.ts";
import type { Store } from "../store.ts";
import { giveBack, type SyncStrategy } from "./sync-strategy.ts";
import { TrackedBucket } from "./tracked-bucket.ts";

/** Most tracked buckets; takes of others go to the shared store. */
const TRACKED_MAX = 10_000;

interface PeriodicOptions {
  readonly store: Store;
  readonly periodMs: number;
  readonly now: () => number;
  /** Default: TRACKED_MAX. */
  readonly trackedMax?: number;
}

/**
 * Decides in memory about buckets whose last answer is at most two periods old, if there is room for all that this process has spent beside
 * that answer. A bucket that is asked for twice within a period is tracked. Until its first answer, and whenever the last one is too old,
 * takes go to the store one by one; if the store is away they fail there, and the rule's on_store_failure decides.
 *
 * N processes together grant at most burst + rate x t + N x (burst + rate x two periods) in any time t, and N times the limit of a window;
 * late, lost or reordered answers and reloads of rules don't change that (test/property/periodic.test.ts). A bucket owes what was granted
 * too much, so it is not granted again.
 */
export class Periodic implements SyncStrategy {
  readonly maintenanceMs: number;
  readonly #store: Store;
  readonly #periodUs: number;
  readonly #now: () => number;
  readonly #trackedMax: number;
  readonly #tracked = new Map<string, TrackedBucket>();
  readonly #idle: TakeGroup[] = [];
  #reports = 0;

  constructor({ store, periodMs, now, trackedMax = TRACKED_MAX }: PeriodicOptions) {
    this.#store = store;
    this.maintenanceMs = periodMs;
    this.#periodUs = periodMs * MICROS_PER_MILLI;
    this.#now = now;
    this.#trackedMax = trackedMax;
  }

  take(take: Take, nowUs: number): boolean {
    if (take.mode !== Mode.pay && take.mode !== Mode.peek) return false;
    const bucket = this.#tracked.get(take.bucketKey);
    if (bucket === undefined || !bucket.isOf(take.limit)) return false;
    bucket.endWindow(nowUs);
    const isFresh = bucket.isKnownSince(nowUs - 2 * this.#periodUs, nowUs);
    if (!isFresh) this.#report(bucket, nowUs);
    // An old answer still forbids: while spending is unacknowledged, this process must not grant beyond that answer.
    if (!isFresh && (bucket.isSettled || bucket.hasRoom(take.cost, nowUs))) return false;
    bucket.wasAsked = true;
    bucket.judge(take, nowUs, this.#periodUs);
    if (take.mode === Mode.pay && take.outcome === Outcome.room) bucket.pay(take);
    bucket.describe(take, nowUs);
    return true;
  }

  conclude(take: Take, nowUs: number): void {
    this.#tracked.get(take.bucketKey)?.describe(take, nowUs);
  }

  asks(take: Take, nowUs: number): void {
    let bucket = this.#tracked.get(take.bucketKey);
    if (bucket === undefined) {
      if (this.#tracked.size >= this.#trackedMax) return;
      bucket = new TrackedBucket(take, nowUs, this.#newNumber);
      this.#tracked.set(take.bucketKey, bucket);
    } else {
      bucket.endWindow(nowUs);
      bucket.follow(take.limit);
      if (!bucket.isKnownSince(nowUs - 2 * this.#periodUs, nowUs)) this.#report(bucket, nowUs);
    }
    bucket.onAsked(take.cost);
  }

  learn(asked: Take, take: Take | undefined, sentUs: number): void {
    const bucket = this.#tracked.get(asked.bucketKey);
    // One that began later has not noted the take: there were too many to follow when it was sent.
    if (bucket === undefined || bucket.beganUs > sentUs || asked.mode !== Mode.pay) return;
    bucket.onAnswered(asked.cost, take?.paid === true);
  }

  giveBack(take: Take): boolean {
    const bucket = this.#tracked.get(take.bucketKey);
    if (take.paidAtUs >= 0) return false;
    const paidAtUs = bucket?.unpay(take) ?? 0;
    if (paidAtUs > 0) giveBack(this.#store, take, take.limit, take.cost, paidAtUs);
    return true;
  }

  forget(bucketKey: string): void {
    this.#tracked.get(bucketKey)?.forget();
  }

  maintain(nowUs: number): void {
    for (const bucket of this.#tracked.values()) {
      if (bucket.isReporting) continue;
      bucket.endWindow(nowUs);
      if (bucket.unreported > 0 || bucket.wasAsked) this.#report(bucket, nowUs);
      else if (bucket.isSettled && nowUs - bucket.beganUs > this.#periodUs) this.#tracked.delete(bucket.bucketKey);
    }
  }

  close(nowUs: number): void {
    for (const bucket of this.#tracked.values()) if (bucket.unreported > 0) this.#report(bucket, nowUs);
  }

  /** Reports what was spent, whether or not there is room, and asks for the bucket's state. */
  #report(bucket: TrackedBucket, nowUs: number): void {
    if (bucket.isReporting || bucket.mayHaveEnded(nowUs)) return;
    const group = this.#idle.pop() ?? new TakeGroup();
    const sent = { sentUs: nowUs, covered: bucket.ask(group) };
    const settled = () => this.#reported(bucket, group, sent);
    if (this.#store.take(group, { settled })) settled();
  }

  #reported(bucket: TrackedBucket, group: TakeGroup, sent: Parameters<TrackedBucket["learn"]>[1]): void {
    const peek = group.takes[group.size - 1] as Take;
    const hasFailed = group.verdict === Verdict.failed || peek.outcome === Outcome.unanswered;
    const paid = group.size > 1 ? group.takes[0] : undefined;
    const returned = bucket.onReported(!hasFailed, paid?.paidAtUs ?? 0);
    if (returned > 0 && paid !== undefined) giveBack(this.#store, paid, paid.limit, returned, paid.paidAtUs);
    // An answer of a denial memory is up to a second old: good for refusing, not for granting.
    if (!hasFailed && group.source === Source.store) bucket.learn(peek, sent, this.#now());
    group.reset();
    this.#idle.push(group);
  }

  readonly #newNumber = (): number => ++this.#reports;
}
