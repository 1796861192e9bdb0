// What fixed and sliding windows share: where windows begin, and how costs are counted in one. Windows are aligned to the Unix
// epoch, so all processes and all stores agree on them. Calendar windows share the counting.

import { AMOUNT_MAX, divideDown } from "../base/units.ts";
import type { Limit } from "../domain/limit.ts";
import { type BucketState, type Step, skewMaxUs, windowUsOf } from "./step.ts";

/** Start of the window that contains `atUs`, in microseconds since the epoch. */
export function windowStartUs(limit: Limit, atUs: number): number {
  const windowUs = windowUsOf(limit);
  return divideDown(atUs, windowUs) * windowUs;
}

/** Moves a state of a later window to the current one if it is further ahead of now than skewMaxUs; true if it moved it. */
export function redateIfTooLate(state: BucketState, limit: Limit, nowUs: number): boolean {
  if (state.atUs <= nowUs + skewMaxUs(limit)) return false;
  state.atUs = windowStartUs(limit, nowUs);
  return true;
}

function clear(state: BucketState, limit: Limit, nowUs: number): void {
  state.atUs = windowStartUs(limit, nowUs);
  state.used = 0;
  state.previous = 0;
}

function pay(state: BucketState, cost: number): void {
  state.used += cost;
}

function undo(state: BucketState, cost: number): void {
  state.used -= cost;
}

/** Counts beyond the limit, up to AMOUNT_MAX; returns the hits that were not counted. */
function postPay(state: BucketState, _limit: Limit, cost: number): number {
  const used = state.used + cost;
  state.used = Math.min(used, AMOUNT_MAX);
  return used - state.used;
}

/** A payment is dated in the state's window even if the clock stepped back before that window. */
function paidAtUs(state: BucketState, nowUs: number): number {
  return Math.max(state.atUs, nowUs);
}

/** The part of a Step that these algorithms share. */
export const alignedWindow: Pick<Step<BucketState>, "clear" | "pay" | "undo" | "postPay" | "paidAtUs"> = {
  clear,
  pay,
  undo,
  postPay,
  paidAtUs,
};
