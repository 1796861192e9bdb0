// The signature that the four algorithms share, and the bits of time arithmetic they have in common. A step works in
// place on a small state object that group-settlement.ts reuses: nothing is allocated per take (bench/micro/take.mjs).
//
// All numbers are whole. A window is 1,000,000 ticks; a tick is as many microseconds as the window has seconds. Amounts,
// bursts and debtMax are at most AMOUNT_MAX and costs at most COST_ABOVE_ALL, so every product and every sum of two
// products stays below 2^53, where division followed by floor or ceil is exact.

import type { Limit } from "../core/limit.ts";
import type { Outcome } from "../core/take.ts";
import { MICROS_PER_SECOND } from "../core/units.ts";

/** State dated later than now by more than this, or by more than a window, counts as dated now. */
const SKEW_SECONDS_MAX = 10;

/** State of the three numeric algorithms; one shape, so that the decision path stays monomorphic. */
export class BucketState {
  /** Token bucket: up to when debt was worked off, by whole ticks. Windows: start of the current window; of a calendar's its first hit. */
  atUs = 0;
  /** Token bucket: debt in millionths of a token. Windows: cost paid in the current window. */
  used = 0;
  /** Sliding window: cost paid in the window before. Calendar window: seconds until its end. 0 for the others. At most AMOUNT_MAX. */
  previous = 0;
}

/** Where `judge` writes what it found; a Take is one. */
export interface Judgement {
  outcome: Outcome;
  waitUs: number;
}

/** Where `report` writes how a bucket stands; a Take is one. */
export interface Report {
  remaining: number;
  resetUs: number;
}

/** One algorithm. `advance` comes first; all other functions take a state that was advanced to the same `nowUs`. */
export interface Step<State> {
  /**
   * Brings the state to `nowUs`: works off debt, turns windows. Time that steps back changes nothing used.
   * True if the state was dated so much later than now that it is now dated now. That has to be kept even if nothing is
   * paid, or the bucket would stand still until the clock has caught up.
   */
  advance(state: State, limit: Limit, nowUs: number): boolean;
  /** Makes the state that of a new bucket. */
  clear(state: State, limit: Limit, nowUs: number): void;
  /** Writes whether `cost` could be paid, and if it could later, in how many microseconds. Leaves the state as it is. */
  judge(state: State, limit: Limit, cost: number, nowUs: number, judgement: Judgement): void;
  /** Pays a cost that `judge` found room for. */
  pay(state: State, cost: number): void;
  /** Takes back what `pay` did, exactly, whatever was paid in between. */
  undo(state: State, cost: number): void;
  /** Pays a cost whether or not there is room; returns the hits that the state could not hold. */
  postPay(state: State, limit: Limit, cost: number, nowUs: number): number;
  /** Gives up to `cost` back, never below nothing used. */
  refund(state: State, limit: Limit, cost: number, nowUs: number): void;
  /** Gives back what was paid at `paidAtUs`, as far as the state still knows of that time. */
  giveBack(state: State, limit: Limit, cost: number, paidAtUs: number, nowUs: number): void;
  /** Time under which a payment is kept: `nowUs`, or the state's own time if that is later. */
  paidAtUs(state: State, nowUs: number): number;
  /** Writes what would still pass and the microseconds until the bucket is as new. */
  report(state: State, limit: Limit, nowUs: number, report: Report): void;
  /** True if the state means the same as none. */
  isAsNew(state: State): boolean;
}

/** Length of the limit's window in microseconds. */
export function windowUsOf(limit: Limit): number {
  return limit.windowSeconds * MICROS_PER_SECOND;
}

/** How far ahead of now a state's time is believed. */
export function skewMaxUs(limit: Limit): number {
  return Math.min(limit.windowSeconds, SKEW_SECONDS_MAX) * MICROS_PER_SECOND;
}
