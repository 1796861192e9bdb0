// What fixed and sliding windows have in common: where clock-aligned windows begin, and how one is counted in. Aligned to
// the Unix epoch, so that all processes and all stores agree.

import type { Limit } from "../core/limit.ts";
import { AMOUNT_MAX, divideDown } from "../core/units.ts";
import { type BucketState, type Step, skewMaxUs, windowUsOf } from "./step.ts";

/** Start of the window that holds `atUs`, in microseconds. */
export function windowStartUs(limit: Limit, atUs: number): number {
  const windowUs = windowUsOf(limit);
  return divideDown(atUs, windowUs) * windowUs;
}

/** Dates a state of a later window now if it lies too far ahead to be believed; true if it did. */
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

/** Counts past the limit, to AMOUNT_MAX; returns what is beyond. */
function postPay(state: BucketState, _limit: Limit, cost: number): number {
  const used = state.used + cost;
  state.used = Math.min(used, AMOUNT_MAX);
  return used - state.used;
}

/** A payment is dated in the state's window even if the clock stepped back behind it. */
function paidAtUs(state: BucketState, nowUs: number): number {
  return Math.max(state.atUs, nowUs);
}

/** The part of a step that is the same for both. */
export const alignedWindow: Pick<Step<BucketState>, "clear" | "pay" | "undo" | "postPay" | "paidAtUs"> = {
  clear,
  pay,
  undo,
  postPay,
  paidAtUs,
};
