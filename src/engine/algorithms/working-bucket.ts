// A bucket while a group is decided, and what algorithms do with it. A Step changes a small state object in place,
// which settlement.ts reuses: no take allocates anything (bench/micro/take.mjs). Everything here is synchronous.
//
// All numbers are whole. A window has 1,000,000 ticks; a tick has as many microseconds as the window has seconds.
// Amounts, bursts and debtMax are at most AMOUNT_MAX and costs at most COST_ABOVE_ALL, so every product and every sum
// of two products stays below 2^53, where division followed by floor or ceil is exact.

import { type ClockShift, NO_SHIFT } from "../../base/clock.ts";
import { MICROS_PER_SECOND } from "../../base/units.ts";
import { KeyBytes, Keyed } from "../domain/key-bytes.ts";
import { Algorithm, type Limit } from "../domain/limit.ts";
import type { Take } from "../domain/take.ts";
import { LogState } from "./log-state.ts";

/** A state dated later than now by more than this, or by more than a window, is moved to now. */
const SKEW_SECONDS_MAX = 10;

/** State of all algorithms but the sliding log. One shape, so that the decision path stays monomorphic. */
export class BucketState {
  /**
   * Token bucket: time up to which whole ticks are refilled. Windows: start of the window. Calendar window: time of its
   * first hit.
   */
  atUs = 0;
  /** Token bucket: debt in millionths of a token. Windows: cost paid in the current window. */
  used = 0;
  /**
   * Sliding window: cost paid in the previous window. Calendar window: seconds from first hit to end. Others: 0. At
   * most AMOUNT_MAX.
   */
  previous = 0;
  /** How far the time of day is from all times here. Fixed and calendar windows begin by the time of day. */
  shift: Readonly<ClockShift> = NO_SHIFT;
}

/** What is kept of a BucketState. */
export type BucketNumbers = Omit<BucketState, "shift">;

/** What `judge` writes. */
export type Judgement = Pick<Take, "outcome" | "waitUs">;

/** What `report` writes. */
export type Report = Pick<Take, "remaining" | "resetUs">;

/**
 * One algorithm. State is a BucketState, or a LogState. All functions but `advance` and `clear` need a state that was
 * advanced to the same `nowUs`.
 */
export interface Step<State = BucketState | LogState> {
  /**
   * Brings the state to `nowUs`: refills tokens, begins new windows. If time stepped back, what is used does not
   * change. True if the state's date was too far in the future (skewMaxUs) and was moved to now. The state must then be
   * kept even if nothing is paid, or the bucket would not change until the clock has caught up.
   */
  advance(state: State, limit: Limit, nowUs: number): boolean;
  /** Resets the state to a new bucket's. */
  clear(state: State, limit: Limit, nowUs: number): void;
  /** Writes whether `cost` fits now, and if not, after how many microseconds it would. Does not change the state. */
  judge(state: State, limit: Limit, cost: number, nowUs: number, judgement: Judgement): void;
  /** Pays a cost that `judge` found room for. */
  pay(state: State, cost: number): void;
  /** Reverses `pay` exactly, whatever was paid in between. */
  undo(state: State, cost: number): void;
  /** Pays a cost whether or not there is room; returns the hits that could not be recorded. */
  postPay(state: State, limit: Limit, cost: number, nowUs: number): number;
  /** Gives back `cost`; what is used does not fall below 0. */
  refund(state: State, limit: Limit, cost: number, nowUs: number): void;
  /** Gives back `cost` of a payment made at `paidAtUs`, as far as that payment still counts in the state. */
  giveBack(state: State, limit: Limit, cost: number, paidAtUs: number, nowUs: number): void;
  /** The time that a payment made now is dated: `nowUs`, or the state's own time if that is later. */
  paidAtUs(state: State, nowUs: number): number;
  /** Writes the cost that would still pass, and the microseconds until the bucket is full. */
  report(state: State, limit: Limit, nowUs: number, report: Report): void;
  /** True if the state equals a new bucket's. */
  isAsNew(state: State): boolean;
}

/** Length of the limit's window in microseconds. */
export function windowUsOf(limit: Limit): number {
  return limit.windowSeconds * MICROS_PER_SECOND;
}

/** How far a state's date may lie ahead of now, in microseconds; beyond, it is moved to now. */
export function skewMaxUs(limit: Limit): number {
  return Math.min(limit.windowSeconds, SKEW_SECONDS_MAX) * MICROS_PER_SECOND;
}

/** A bucket while a group is decided: a copy of its numbers, or of its log. */
export class WorkingBucket extends Keyed {
  algorithm: Algorithm = Algorithm.tokenBucket;
  step: Step;
  /** The limit of the last take on it. Takes of a group may reach one bucket under several limits. */
  limit: Limit | undefined = undefined;
  /** Numbers of the bucket; unused for a sliding log. */
  readonly state = new BucketState();
  /** Payments of a sliding log; undefined for other algorithms. */
  log: LogState | undefined = undefined;

  /** What was used once the bucket was opened and brought to now. If this differs in the end, the bucket is written. */
  openedUsed = 0;
  openedPrevious = 0;
  /**
   * True if opening the bucket moved a date in the far future to now, or gave something back. The bucket is then
   * written too.
   */
  isChangedByTime = false;
  /** How long the state must be kept, in microseconds from now. */
  lifetimeUs = 0;

  /** Used by the BucketAccess alone: where it found the bucket, and a version to notice that the bucket has moved. */
  place = -1;
  placeVersion = 0;

  /** Reused: `log` is this object whenever there is a log. */
  #ownLog: LogState | undefined;

  constructor(step: Step) {
    super(new KeyBytes(0));
    this.step = step;
  }

  /** Becomes the bucket of the take, before it is loaded. */
  begin(take: Take, step: Step): void {
    const { limit } = take;
    this.useKeyOf(take);
    this.algorithm = limit.algorithm;
    this.step = step;
    this.limit = limit;
    this.log = undefined;
    if (limit.algorithm === Algorithm.slidingLog) this.useLog();
    this.lifetimeUs = 0;
    this.isChangedByTime = false;
    this.place = -1;
  }

  /** Gives the bucket a log, which the caller must read or clear before use. */
  useLog(): LogState {
    this.#ownLog ??= new LogState();
    this.log = this.#ownLog;
    return this.log;
  }

  /** What the algorithm's Step changes: the numbers, or the payments of a sliding log. */
  get kept(): BucketState | LogState {
    return this.log ?? this.state;
  }

  get used(): number {
    return this.log === undefined ? this.state.used : this.log.total;
  }

  /** Remembers what is used now, for `hasChanged`. */
  markOpened(): void {
    this.openedUsed = this.used;
    this.openedPrevious = this.state.previous;
  }

  /**
   * True if payments or refunds changed what is used since the bucket was opened, or if opening itself was a change.
   * Refill by time is no change, because it can be computed again.
   */
  get hasChanged(): boolean {
    return this.isChangedByTime || this.used !== this.openedUsed || this.state.previous !== this.openedPrevious;
  }
}

/** A store of buckets by key. */
export interface BucketAccess {
  /** Of the clock by which groups are decided; absent if nobody sets it. */
  readonly shift?: Readonly<ClockShift>;
  /** True if the log can be saved with one more payment than it has. */
  hasRoomForPayment(log: LogState): boolean;
  /**
   * Fills the bucket's `state` or its log from what is kept under the key. False, with both unchanged, if nothing is
   * kept.
   */
  load(bucket: WorkingBucket): boolean;
  /**
   * Keeps the bucket. After `expiresAtUs` it is full, unless its limit is edited or time steps back, and may be
   * dropped.
   */
  save(bucket: WorkingBucket, expiresAtUs: number): void;
  /** Keeps an unchanged bucket at least until `expiresAtUs`. Does nothing if there isn't one. */
  extend(bucket: WorkingBucket, expiresAtUs: number): void;
  /** Removes the bucket, if there is one. */
  remove(bucket: WorkingBucket): void;
}
