// What a process has spent of a bucket that it decides about in memory (periodic.ts), and what the shared store's last answer says.
//
// - An answer has two dates, because it may be old. What returns with time is counted from when the answer arrived; what ends (the answer's
//   validity, a fixed window) from when its question was sent. So neither clock nor delay grants more.
// - Of this process's spending an answer contains only what the store had acknowledged when the question was sent, and what the question itself
//   reported (`#covered`). All other spending is subtracted from the answer, even if it was lost on its way.
// - `#settled` <= `#spent`: they differ by `unreported`, the report under way, and takes that were sent to the store and not answered.
// - One report is under way at a time. Each has a number, which is the receipt of what was granted under it, negated: what is given back later finds
//   whether its report waits, is under way, or was paid.
// - A report whose answer is lost is sent again with the next, so it may be paid twice, never not at all.

import { getOrInsert } from "../../engine/base/get-or-insert.ts";
import { AMOUNT_MAX, MICROS_PER_TOKEN } from "../../engine/base/units.ts";
import { ALGORITHM_TRAITS, Algorithm, type Limit, usToRefill, WAIT_US_MAX } from "../../engine/domain/limit.ts";
import { Kind, Mode, Outcome, type Take, type TakeGroup } from "../../engine/domain/take.ts";
import { microTokensOf, noteAnswer, remainingOf, resetUsOf } from "../last-answer.ts";
import { addTake, LocalBucket } from "./sync-strategy.ts";

const NEVER = Number.NEGATIVE_INFINITY;

/** A bucket that this process decides about. */
export class TrackedBucket extends LocalBucket {
  readonly beganUs: number;
  /** All that this process has spent: granted here, or paid at the store. */
  #spent = 0;
  /** The part of `#spent` that the store has acknowledged. */
  #settled = 0;
  /** The part of `#spent` that the known answer contains. */
  #covered = 0;
  /** When the question of the known answer was sent; NEVER without an answer. */
  #sentUs = NEVER;
  /** Earliest end of a fixed window. */
  #endsUs = Number.POSITIVE_INFINITY;
  /** Granted here and in no report yet. */
  unreported = 0;
  /** True while a report is under way. */
  isReporting = false;
  /** Cost in the report under way. */
  #reported = 0;
  /** Cost of the report under way that was given back since it was sent. */
  #returned = 0;
  readonly #newNumber: () => number;
  /** Number of the next report. It is the receipt of what is granted here, so that giving back finds the report. */
  #number: number;
  /** Number of the report under way, or of the last one. */
  #sentNumber = 0;
  /** Number and time of the last report that the store has paid. */
  #paidNumber = 0;
  #paidAtUs = 0;
  /** True if a take has asked for the bucket since the last report. */
  wasAsked = false;
  /** The smallest cost refused here since the last report. */
  #refusedCost = Number.POSITIVE_INFINITY;
  /** The cost that the last report asked for, and when such a cost would pass by its answer. */
  #askedCost = 0;
  #passesAtUs = 0;

  /** `newNumber` returns another number above 0 each time: receipts may outlive the bucket, and mean nothing to the next one of this key. */
  constructor(take: Take, nowUs: number, newNumber: () => number) {
    super(take);
    this.beganUs = nowUs;
    this.#newNumber = newNumber;
    this.#number = newNumber();
  }

  /** True if the store has acknowledged all that this process has spent. */
  get isSettled(): boolean {
    return this.#spent === this.#settled;
  }

  /** Whether the limit has the same numbers as the known answer's. Reloaded rules have new objects for the same limits. */
  isOf(limit: Limit): boolean {
    const own = this.limit;
    return own === limit || (own.amount === limit.amount && own.burst === limit.burst);
  }

  /** Replaces the limit. If its numbers differ, the known answer is dropped; what was spent still counts. */
  follow(limit: Limit): void {
    if (!this.isOf(limit)) this.#sentUs = NEVER;
    this.limit = limit;
  }

  /** Whether there is a valid answer to a question that was sent at `sinceUs` or later. */
  isKnownSince(sinceUs: number, nowUs: number): boolean {
    return this.#sentUs >= sinceUs && nowUs < this.#endsUs;
  }

  /** True if the fixed window may have ended at the store: a report now might be charged to the next window. */
  mayHaveEnded(nowUs: number): boolean {
    return this.#sentUs !== NEVER && nowUs >= this.#endsUs;
  }

  /** Forgets what was granted in a fixed window that has surely ended. */
  endWindow(nowUs: number): void {
    if (this.mayHaveEnded(nowUs) && nowUs >= this.resetAtUs) this.forget();
  }

  /** Drops the known answer, and what was granted and not reported. */
  forget(): void {
    this.#sentUs = NEVER;
    this.#endsUs = Number.POSITIVE_INFINITY;
    this.#settled += this.unreported;
    this.unreported = 0;
    this.#number = this.#newNumber();
  }

  /** Whether there is room for the cost beside all that was spent. Without an answer there is. */
  hasRoom(cost: number, nowUs: number): boolean {
    if (this.#sentUs === NEVER) return true;
    const { limit } = this;
    const needed = this.#spent - this.#covered + cost;
    // In a token bucket debt counts too: what was granted too much must be refilled before anything passes.
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

  /** Grants the take here. Its receipt is the number of the report that will carry it, negated. */
  pay(take: Take): void {
    this.#spent += take.cost;
    this.unreported += take.cost;
    take.paid = true;
    take.paidAtUs = -this.#number;
  }

  /** Undoes `pay`. Above 0: the store was paid at that time, and has to be given the cost back. */
  unpay(take: Take): number {
    const number = -take.paidAtUs;
    if (number === this.#number) {
      this.#spent -= take.cost;
      this.unreported -= take.cost;
    } else if (number === this.#sentNumber && this.isReporting) this.#returned += take.cost;
    else if (number === this.#paidNumber) return this.#paidAtUs;
    // An earlier report's cost stays paid.
    return 0;
  }

  /** Notes that a take goes to the store. */
  onAsked(cost: number): void {
    this.#spent += cost;
  }

  /** Notes the store's answer to that take. */
  onAnswered(cost: number, wasPaid: boolean): void {
    if (wasPaid) this.#settled += cost;
    else this.#spent -= cost;
  }

  /** Fills the group with the report. Returns how much of `#spent` its answer will contain. */
  ask(group: TakeGroup): number {
    const limit = reportLimitOf(this.limit);
    const cost = this.unreported;
    if (cost > 0) addTake(group, this, limit, Mode.postPaid, cost);
    const peek = addTake(group, this, limit, Mode.peek, Number.isFinite(this.#refusedCost) ? this.#refusedCost : 1);
    // The report stands, whether or not there is room.
    peek.kind = Kind.shadow;
    this.#reported = cost;
    this.#returned = 0;
    this.unreported = 0;
    this.#sentNumber = this.#number;
    this.#number = this.#newNumber();
    this.isReporting = true;
    this.wasAsked = false;
    this.#refusedCost = Number.POSITIVE_INFINITY;
    return this.#settled + cost;
  }

  /** Notes the report's answer. Returns the cost of it that has to be given back. */
  onReported(wasPaid: boolean, paidAtUs: number): number {
    const cost = this.#reported;
    const returned = this.#returned;
    this.#reported = 0;
    this.#returned = 0;
    this.isReporting = false;
    if (!wasPaid) {
      // It may have been paid all the same; then it is paid twice, which grants less.
      this.unreported += cost - returned;
      this.#spent -= returned;
      return 0;
    }
    this.#settled += cost;
    this.#paidNumber = this.#sentNumber;
    this.#paidAtUs = paidAtUs;
    return returned;
  }

  /** Takes the store's answer about the bucket's state. */
  learn(answer: Take, { sentUs, covered }: { readonly sentUs: number; readonly covered: number }, nowUs: number): void {
    const { limit } = this;
    if (!this.isOf(answer.limit)) return;
    noteAnswer(this, limit, answer, nowUs);
    this.#sentUs = sentUs;
    this.#covered = covered;
    // An unused window has no end. For the rounding of the server's clock a microsecond is left.
    const ends = ALGORITHM_TRAITS[limit.algorithm].endsAtOnce && answer.resetUs > 0;
    this.#endsUs = ends ? sentUs + answer.resetUs - 1 : Number.POSITIVE_INFINITY;
    this.#askedCost = answer.outcome === Outcome.room ? 0 : answer.cost;
    this.#passesAtUs = nowUs + answer.waitUs;
  }

  /** Writes the bucket's state as known here. */
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
    if (ALGORITHM_TRAITS[limit.algorithm].endsAtOnce && this.resetAtUs > nowUs) return resetUsOf(this, limit, nowUs);
    // Only the shared store knows when hits leave the window: wait for what it said of this cost, or else for its next answer.
    if (cost === this.#askedCost && this.#passesAtUs > nowUs) return this.#passesAtUs - nowUs;
    return this.#sentUs + periodUs - nowUs;
  }
}

const reportLimits = new WeakMap<Limit, Limit>();

// All spending is owed, however much it is. The limit's own largest debt is meant for hits that nobody could refuse.
function reportLimitOf(limit: Limit): Limit {
  return getOrInsert(reportLimits, limit, () => ({ ...limit, debtMax: AMOUNT_MAX }));
}
