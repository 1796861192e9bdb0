// The interface of the five algorithms, and the time arithmetic that they share. A step changes a small state object in place, which
// group-settlement.ts reuses: no take allocates anything (bench/micro/take.mjs).
//
// All numbers are whole. A window has 1,000,000 ticks; a tick has as many microseconds as the window has seconds. Amounts, bursts and
// debtMax are at most AMOUNT_MAX and costs at most COST_ABOVE_ALL, so every product and every sum of two products stays below 2^53,
// where division followed by floor or ceil is exact.

import { MICROS_PER_SECOND } from "../base/units.ts";
import type { Limit } from "../domain/limit.ts";
import type { Outcome } from "../domain/take.ts";

/** A state dated later than now by more than this, or by more than a window, is moved to now. */
const SKEW_SECONDS_MAX = 10;

/** State of all algorithms but the sliding log. One shape, so that the decision path stays monomorphic. */
export class BucketState {
  /** Token bucket: time up to which whole ticks are refilled. Windows: start of the window. Calendar window: time of its first hit. */
  atUs = 0;
  /** Token bucket: debt in millionths of a token. Windows: cost paid in the current window. */
  used = 0;
  /** Sliding window: cost paid in the previous window. Calendar window: seconds from first hit to end. Others: 0. At most AMOUNT_MAX. */
  previous = 0;
}

/** What `judge` writes; a Take is one. */
export interface Judgement {
  outcome: Outcome;
  waitUs: number;
}

/** What `report` writes; a Take is one. */
export interface Report {
  remaining: number;
  resetUs: number;
}

/** One algorithm. All functions but `advance` and `clear` need a state that was advanced to the same `nowUs`. */
export interface Step<State> {
  /**
   * Brings the state to `nowUs`: refills tokens, begins new windows. If time stepped back, what is used does not change.
   * True if the state's date was too far in the future (skewMaxUs) and was moved to now. The state must then be kept even if nothing
   * is paid, or the bucket would not change until the clock has caught up.
   */
  advance(state: State, limit: Limit, nowUs: number): boolean;
  /** Sets the state to that of a new bucket. */
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
  /** Writes the cost that would still pass, and the microseconds until the bucket is as new. */
  report(state: State, limit: Limit, nowUs: number, report: Report): void;
  /** True if the state equals that of a new bucket. */
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
