// sync: periodic. A process decides by what the shared store last said and by what it has spent since, and reports that
// spending once per period. The answer to the report is what it decides by next.

import { Algorithm, type Limit } from "../../core/limit.ts";
import { usToRefill, WAIT_US_MAX } from "../../core/refill.ts";
import { Kind, Mode, Outcome, type Take, TakeGroup, Verdict } from "../../core/take.ts";
import { AMOUNT_MAX, MICROS_PER_MILLI } from "../../core/units.ts";
import type { Settled, Store } from "../store.ts";
import { LocalBucket } from "./local-bucket.ts";
import type { LocalPart } from "./local-part.ts";
import { microTokensOf, noteStanding, remainingOf, resetUsOf } from "./standing.ts";

/** Most buckets that are followed; others are asked about each time. */
const FOLLOWED_MAX = 10_000;
const MICRO_TOKENS = 1_000_000;

/** A bucket that this process decides about. */
class Followed extends LocalBucket {
  /** When the last answer was heard, and when its question was sent. */
  heardUs = 0;
  knownUs = 0;
  /** Spent here and not reported; reported and not answered yet. */
  spent = 0;
  reported = 0;
  isReporting = false;
  wasAsked = false;
  /** The smallest cost refused here since the last report, and when the shared store said that such a cost would pass. */
  refusedCost = Number.POSITIVE_INFINITY;
  askedCost = 0;
  passesAtUs = 0;
}

export interface PeriodicOptions {
  readonly store: Store;
  readonly periodMs: number;
  readonly now: () => number;
}

/**
 * Decides in memory about buckets that the shared store has told of within the period, and reports what was spent every
 * period. N processes together grant at most burst + rate x t + (N - 1) x (burst + rate x period) in any time t; of a
 * window, N times its limit at most (test/property/periodic.test.ts). What was granted too much is owed to the bucket, so
 * it is not granted again. When a report is not answered for two periods, takes go to the shared store one by one, where
 * they fail like any other if it is away: the rule's failure policy decides.
 */
export class Periodic implements LocalPart {
  readonly turnMs: number;
  readonly #store: Store;
  readonly #periodUs: number;
  readonly #now: () => number;
  readonly #followed = new Map<string, Followed>();
  readonly #idle: Report[] = [];
  readonly #reportLimits = new WeakMap<Limit, Limit>();

  constructor({ store, periodMs, now }: PeriodicOptions) {
    this.#store = store;
    this.turnMs = periodMs;
    this.#periodUs = periodMs * MICROS_PER_MILLI;
    this.#now = now;
  }

  take(take: Take, nowUs: number): boolean {
    if (take.mode !== Mode.pay && take.mode !== Mode.peek) return false;
    const bucket = this.#followed.get(take.bucketKey);
    if (bucket === undefined || bucket.limit !== take.limit) return false;
    const ageUs = nowUs - bucket.knownUs;
    if (ageUs > 2 * this.#periodUs || (ageUs > this.#periodUs && !bucket.isReporting)) {
      this.#report(bucket, nowUs);
      return false;
    }
    bucket.wasAsked = true;
    turnWindow(bucket, nowUs);
    if (hasRoom(bucket, take.cost, nowUs)) {
      take.outcome = Outcome.room;
      take.waitUs = 0;
      if (take.mode === Mode.pay) {
        bucket.spent += take.cost;
        take.paid = true;
        take.paidAtUs = nowUs;
      }
    } else {
      this.#refuse(bucket, take, nowUs);
    }
    describe(bucket, take, nowUs);
    return true;
  }

  undo(take: Take, nowUs: number): void {
    if (!this.giveBack(take, nowUs)) this.#giveBackRemotely(take);
  }

  conclude(take: Take, nowUs: number): void {
    const bucket = this.#followed.get(take.bucketKey);
    if (bucket !== undefined) describe(bucket, take, nowUs);
  }

  wish(): number {
    return 0;
  }

  learn(asked: Take, take: Take | undefined, _wished: Take | undefined, sentUs: number, nowUs: number): void {
    if (take === undefined) return;
    let bucket = this.#followed.get(asked.bucketKey);
    if (bucket !== undefined && bucket.limit !== asked.limit) {
      // Rules were read anew: what was spent under the old limit is reported, and nothing else is known any more.
      this.#report(bucket, nowUs);
      this.#followed.delete(asked.bucketKey);
      bucket = undefined;
    }
    if (bucket === undefined) {
      if (this.#followed.size >= FOLLOWED_MAX) return;
      bucket = new Followed(asked);
      this.#followed.set(asked.bucketKey, bucket);
    }
    if (sentUs < bucket.knownUs) return;
    note(bucket, take, sentUs, nowUs);
  }

  giveBack(take: Take, _nowUs: number): boolean {
    const bucket = this.#followed.get(take.bucketKey);
    if (bucket === undefined || bucket.limit !== take.limit || bucket.spent < take.cost) return false;
    bucket.spent -= take.cost;
    return true;
  }

  forget(bucketKey: string): void {
    this.#followed.delete(bucketKey);
  }

  turn(nowUs: number): void {
    for (const bucket of this.#followed.values()) {
      if (bucket.isReporting) continue;
      if (bucket.spent > 0 || bucket.wasAsked) this.#report(bucket, nowUs);
      else if (nowUs - bucket.knownUs > this.#periodUs) this.#followed.delete(bucket.bucketKey);
    }
  }

  close(nowUs: number): void {
    for (const bucket of this.#followed.values()) if (bucket.spent > 0) this.#report(bucket, nowUs);
    this.#followed.clear();
  }

  /** For `Report` alone. */
  reported(report: Report): void {
    const { bucket, group } = report;
    if (bucket !== undefined) {
      bucket.isReporting = false;
      const hasFailed = group.verdict === Verdict.failed;
      if (hasFailed) bucket.spent += bucket.reported;
      bucket.reported = 0;
      const nowUs = this.#now();
      const peek = group.takes[group.size - 1];
      if (!hasFailed && peek !== undefined && report.sentUs >= bucket.knownUs) {
        note(bucket, peek, report.sentUs, nowUs);
        bucket.askedCost = peek.outcome === Outcome.room ? 0 : peek.cost;
        bucket.passesAtUs = nowUs + peek.waitUs;
      }
    }
    report.bucket = undefined;
    group.reset();
    this.#idle.push(report);
  }

  /** Reports what was spent, whether or not there is room, and asks how the bucket stands. */
  #report(bucket: Followed, nowUs: number): void {
    if (bucket.isReporting) return;
    const report = this.#idle.pop() ?? new Report(this);
    const limit = this.#reportLimitOf(bucket.limit);
    if (bucket.spent > 0) addTake(report.group, bucket, limit, Mode.postPaid, Math.min(bucket.spent, AMOUNT_MAX));
    const asked = Number.isFinite(bucket.refusedCost) ? bucket.refusedCost : 1;
    addTake(report.group, bucket, limit, Mode.peek, asked);
    report.bucket = bucket;
    report.sentUs = nowUs;
    bucket.reported = bucket.spent;
    bucket.spent = 0;
    bucket.isReporting = true;
    bucket.wasAsked = false;
    bucket.refusedCost = Number.POSITIVE_INFINITY;
    if (this.#store.take(report.group, report)) this.reported(report);
  }

  #refuse(bucket: Followed, take: Take, nowUs: number): void {
    const { limit, cost } = take;
    if (cost > limit.burst) {
      take.outcome = Outcome.never;
      take.waitUs = 0;
      return;
    }
    bucket.refusedCost = Math.min(bucket.refusedCost, cost);
    take.outcome = Outcome.over;
    take.waitUs = this.#waitUs(bucket, cost, nowUs);
  }

  #waitUs(bucket: Followed, cost: number, nowUs: number): number {
    const { limit } = bucket;
    if (limit.algorithm === Algorithm.tokenBucket) {
      if (limit.amount === 0) return resetUsOf(bucket, limit, nowUs);
      const missing = (cost + bucket.spent + bucket.reported) * MICRO_TOKENS - microTokensOf(bucket, limit, nowUs);
      return Math.max(1, usToRefill(missing, limit));
    }
    if (limit.algorithm === Algorithm.fixedWindow && bucket.asNewAtUs > nowUs) return resetUsOf(bucket, limit, nowUs);
    // Only the shared store knows when hits leave the window: what it said of this cost, else the next it will say.
    const isKnown = cost === bucket.askedCost && bucket.passesAtUs > nowUs;
    const passesAtUs = isKnown ? bucket.passesAtUs : Math.max(nowUs, bucket.knownUs + this.#periodUs);
    return Math.max(1, passesAtUs - nowUs);
  }

  #giveBackRemotely(take: Take): void {
    const group = new TakeGroup();
    const copy = addTake(group, take, take.limit, Mode.pay, take.cost);
    copy.paid = true;
    copy.paidAtUs = take.paidAtUs;
    this.#store.giveBack(group);
  }

  // What is spent is owed however much it is; the limit's own largest debt is for hits that nobody could refuse.
  #reportLimitOf(limit: Limit): Limit {
    let reportLimit = this.#reportLimits.get(limit);
    if (reportLimit === undefined) {
      reportLimit = { ...limit, debtMax: AMOUNT_MAX };
      this.#reportLimits.set(limit, reportLimit);
    }
    return reportLimit;
  }
}

/** A report on its way; pooled. */
class Report implements Settled {
  readonly group = new TakeGroup();
  readonly #owner: Periodic;
  bucket: Followed | undefined;
  sentUs = 0;

  constructor(owner: Periodic) {
    this.#owner = owner;
  }

  settled(): void {
    this.#owner.reported(this);
  }
}

function addTake(
  group: TakeGroup,
  bucket: { readonly bucketKey: string; readonly keyHash: number },
  limit: Limit,
  mode: Mode,
  cost: number,
): Take {
  const take = group.add(limit);
  take.bucketKey = bucket.bucketKey;
  take.keyHash = bucket.keyHash;
  take.descriptor = group.size;
  take.kind = Kind.shadow;
  take.mode = mode;
  take.cost = cost;
  return take;
}

function note(bucket: Followed, answer: Take, sentUs: number, nowUs: number): void {
  noteStanding(bucket, bucket.limit, answer, nowUs);
  bucket.heardUs = nowUs;
  bucket.knownUs = sentUs;
}

/** A fixed window that ends between two answers: what was spent in it no longer counts, and need not be reported. */
function turnWindow(bucket: Followed, nowUs: number): void {
  if (bucket.limit.algorithm !== Algorithm.fixedWindow) return;
  if (bucket.asNewAtUs <= bucket.heardUs || bucket.asNewAtUs > nowUs) return;
  bucket.asNewAtUs = bucket.heardUs;
  bucket.spent = 0;
}

function hasRoom(bucket: Followed, cost: number, nowUs: number): boolean {
  const { limit } = bucket;
  const spent = bucket.spent + bucket.reported;
  // In tokens, a debt counts too: what was granted too much is worked off before anything passes.
  if (limit.algorithm === Algorithm.tokenBucket) {
    return microTokensOf(bucket, limit, nowUs) >= (cost + spent) * MICRO_TOKENS;
  }
  return remainingOf(bucket, limit, nowUs) >= cost + spent;
}

function describe(bucket: Followed, take: Take, nowUs: number): void {
  const { limit } = bucket;
  const spent = bucket.spent + bucket.reported;
  take.cappedHits = 0;
  take.remaining = Math.max(0, remainingOf(bucket, limit, nowUs) - spent);
  take.resetUs = resetUsOf(bucket, limit, nowUs);
  if (spent === 0) return;
  if (limit.algorithm === Algorithm.tokenBucket && limit.amount > 0)
    take.resetUs = Math.min(WAIT_US_MAX, take.resetUs + usToRefill(spent * MICRO_TOKENS, limit));
  else take.resetUs = Math.max(take.resetUs, 1);
}
