// What a process has spent of a bucket that it decides about in memory (periodic.ts), and what the shared store's last
// answer says of it.
//
// An answer may be old, and answers may overtake each other or be lost. So an answer is dated twice: what returns with time is
// counted from when the answer was heard, and what ends (the answer's age, a fixed window) from when its question was sent. Of
// this process's own spending an answer contains only what the store had acknowledged when the question was sent, and what
// the question itself brought. All other spending is taken off what the answer says.

import { Algorithm, endsAtOnce, type Limit } from "../../core/limit.ts";
import { usToRefill, WAIT_US_MAX } from "../../core/refill.ts";
import { Kind, Mode, Outcome, type Take, type TakeGroup } from "../../core/take.ts";
import { AMOUNT_MAX, MICROS_PER_TOKEN } from "../../core/units.ts";
import { microTokensOf, noteAnswer, remainingOf, resetUsOf } from "../last-answer.ts";
import { LocalBucket } from "./local-bucket.ts";

const NEVER = Number.NEGATIVE_INFINITY;

/** A bucket that this process decides about. */
export class TrackedBucket extends LocalBucket {
  readonly beganUs: number;
  /** All that this process has spent: granted here, or asked of the store. */
  #spent = 0;
  /** What the store has acknowledged of `#spent`. */
  #settled = 0;
  /** What the known answer contains of `#spent`. */
  #covered = 0;
  /** When the question of the known answer was sent; NEVER if none is known. */
  #sentUs = NEVER;
  /** A fixed window has surely not ended before. */
  #endsUs = Number.POSITIVE_INFINITY;
  /** Granted here and in no report yet. */
  unreported = 0;
  /** True while a report is under way. */
  isReporting = false;
  /** What the report under way carries. */
  #reported = 0;
  /** What was given back of the report under way since it was sent. */
  #returned = 0;
  /** Number of the next report. The receipt of what is granted here bears it: giving back finds the report by it. */
  #number = 1;
  /** Number of the report under way, or of the last one. */
  #sentNumber = 0;
  /** Number of the last report that the store has paid, and when it did. */
  #paidNumber = 0;
  #paidAtUs = 0;
  /** Asked about since the last report. */
  wasAsked = false;
  /** The smallest cost refused here since the last report. */
  #refusedCost = Number.POSITIVE_INFINITY;
  /** The cost that the store was asked about last, and when it said that such a cost would pass. */
  #askedCost = 0;
  #passesAtUs = 0;

  constructor(take: Take, nowUs: number) {
    super(take);
    this.beganUs = nowUs;
  }

  /** True if the store has acknowledged all that this process has spent. */
  get isSettled(): boolean {
    return this.#spent === this.#settled;
  }

  /** Whether the limit has the numbers that the known answer is about. Rules that are read anew make another object of it. */
  isOf(limit: Limit): boolean {
    const own = this.limit;
    return own === limit || (own.amount === limit.amount && own.burst === limit.burst);
  }

  /** Goes on with that limit. If its numbers are others, what is known of the bucket is not; what was spent still is. */
  follow(limit: Limit): void {
    if (!this.isOf(limit)) this.#sentUs = NEVER;
    this.limit = limit;
  }

  /** True if the answer to a question that was sent since `sinceUs` is known and still holds. */
  isKnownSince(sinceUs: number, nowUs: number): boolean {
    return this.#sentUs >= sinceUs && nowUs < this.#endsUs;
  }

  /** True if the fixed window may have ended at the store: what is reported now might be charged to the next one. */
  mayHaveEnded(nowUs: number): boolean {
    return this.#sentUs !== NEVER && nowUs >= this.#endsUs;
  }

  /** A fixed window has ended for sure: what was granted here was granted in it, and no longer counts. */
  endWindow(nowUs: number): void {
    if (this.mayHaveEnded(nowUs) && nowUs >= this.asNewAtUs) this.forget();
  }

  /** Drops what is known, and what was granted and not reported. */
  forget(): void {
    this.#sentUs = NEVER;
    this.#endsUs = Number.POSITIVE_INFINITY;
    this.#settled += this.unreported;
    this.unreported = 0;
    this.#number++;
  }

  /** Whether there is room for the cost beside all that was spent; of an answer that is too old, for this process alone. */
  hasRoom(cost: number, nowUs: number): boolean {
    if (this.#sentUs === NEVER) return true;
    const { limit } = this;
    const needed = this.#spent - this.#covered + cost;
    // In tokens, a debt counts too: what was granted too much is worked off before anything passes.
    if (limit.algorithm !== Algorithm.tokenBucket) return remainingOf(this, limit, nowUs) >= needed;
    return microTokensOf(this, limit, nowUs) >= needed * MICROS_PER_TOKEN;
  }

  judge(take: Take, nowUs: number, periodUs: number): void {
    if (this.hasRoom(take.cost, nowUs)) {
      take.outcome = Outcome.room;
      take.waitUs = 0;
    } else if (take.cost > this.limit.burst) {
      take.outcome = Outcome.never;
      take.waitUs = 0;
    } else {
      this.#refusedCost = Math.min(this.#refusedCost, take.cost);
      take.outcome = Outcome.over;
      take.waitUs = Math.max(1, this.#waitUs(take.cost, nowUs, periodUs));
    }
  }

  /** Grants the take here. Its receipt is the number of the report that will carry it, below 0. */
  pay(take: Take): void {
    this.#spent += take.cost;
    this.unreported += take.cost;
    take.paid = true;
    take.paidAtUs = -this.#number;
  }

  /** Takes back what `pay` did. Above 0: the store was paid at that time, and has to be given it back. */
  unpay(take: Take): number {
    const number = -take.paidAtUs;
    if (number === this.#number) {
      this.#spent -= take.cost;
      this.unreported -= take.cost;
    } else if (number === this.#sentNumber && this.isReporting) this.#returned += take.cost;
    else if (number === this.#paidNumber) return this.#paidAtUs;
    // What an earlier report has carried stays paid.
    return 0;
  }

  /** A take goes to the store. */
  onAsked(cost: number): void {
    this.#spent += cost;
  }

  /** It was answered. */
  onAnswered(cost: number, wasPaid: boolean): void {
    if (wasPaid) this.#settled += cost;
    else this.#spent -= cost;
  }

  /** Writes the report. Returns what its answer will contain of this process's spending. */
  ask(group: TakeGroup): number {
    const limit = reportLimitOf(this.limit);
    const cost = this.unreported;
    if (cost > 0) this.#addTake(group, limit, Mode.postPaid, cost);
    this.#addTake(group, limit, Mode.peek, Number.isFinite(this.#refusedCost) ? this.#refusedCost : 1);
    this.#reported = cost;
    this.#returned = 0;
    this.unreported = 0;
    this.#sentNumber = this.#number++;
    this.isReporting = true;
    this.wasAsked = false;
    this.#refusedCost = Number.POSITIVE_INFINITY;
    return this.#settled + cost;
  }

  /** The report has its answer. Returns what of it is to be given back. */
  onReported(wasPaid: boolean, paidAtUs: number): number {
    const cost = this.#reported;
    const returned = this.#returned;
    this.#reported = 0;
    this.#returned = 0;
    this.isReporting = false;
    if (!wasPaid) {
      // Perhaps it was paid all the same: then it is paid twice, which grants less.
      this.unreported += cost - returned;
      this.#spent -= returned;
      return 0;
    }
    this.#settled += cost;
    this.#paidNumber = this.#sentNumber;
    this.#paidAtUs = paidAtUs;
    return returned;
  }

  /** Hears how the bucket stands. */
  learn(answer: Take, { sentUs, covered }: { readonly sentUs: number; readonly covered: number }, nowUs: number): void {
    const { limit } = this;
    if (!this.isOf(answer.limit)) return;
    noteAnswer(this, limit, answer, nowUs);
    this.#sentUs = sentUs;
    this.#covered = covered;
    // A window in which nothing is used tells no end. The other clock may round: a microsecond is left for it.
    const ends = endsAtOnce(limit) && answer.resetUs > 0;
    this.#endsUs = ends ? sentUs + answer.resetUs - 1 : Number.POSITIVE_INFINITY;
    this.#askedCost = answer.outcome === Outcome.room ? 0 : answer.cost;
    this.#passesAtUs = nowUs + answer.waitUs;
  }

  /** Writes how the bucket stands by what is known here. */
  describe(take: Take, nowUs: number): void {
    const { limit } = this;
    const spent = this.#spent - this.#covered;
    take.cappedHits = 0;
    take.remaining = Math.max(0, remainingOf(this, limit, nowUs) - spent);
    take.resetUs = resetUsOf(this, limit, nowUs);
    if (spent === 0) return;
    if (limit.algorithm === Algorithm.tokenBucket && limit.amount > 0)
      take.resetUs = Math.min(WAIT_US_MAX, take.resetUs + usToRefill(spent * MICROS_PER_TOKEN, limit));
    else take.resetUs = Math.max(take.resetUs, 1);
  }

  #waitUs(cost: number, nowUs: number, periodUs: number): number {
    const { limit } = this;
    if (limit.algorithm === Algorithm.tokenBucket) {
      if (limit.amount === 0) return resetUsOf(this, limit, nowUs);
      const needed = this.#spent - this.#covered + cost;
      return usToRefill(needed * MICROS_PER_TOKEN - microTokensOf(this, limit, nowUs), limit);
    }
    if (endsAtOnce(limit) && this.asNewAtUs > nowUs) return resetUsOf(this, limit, nowUs);
    // Only the shared store knows when hits leave the window: what it said of this cost, else the next it will say.
    if (cost === this.#askedCost && this.#passesAtUs > nowUs) return this.#passesAtUs - nowUs;
    return this.#sentUs + periodUs - nowUs;
  }

  #addTake(group: TakeGroup, limit: Limit, mode: Mode, cost: number): void {
    const take = group.add(limit);
    take.bucketKey = this.bucketKey;
    take.keyHash = this.keyHash;
    take.descriptor = group.size;
    take.kind = Kind.shadow;
    take.mode = mode;
    take.cost = cost;
  }
}

const reportLimits = new WeakMap<Limit, Limit>();

// What is spent is owed however much it is; the limit's own largest debt is for hits that nobody could refuse.
function reportLimitOf(limit: Limit): Limit {
  let reportLimit = reportLimits.get(limit);
  if (reportLimit === undefined) {
    reportLimit = { ...limit, debtMax: AMOUNT_MAX };
    reportLimits.set(limit, reportLimit);
  }
  return reportLimit;
}
