// What calls of one kind used, and what should be held for them. The first reading of a recording finds what to hold, the second
// checks it.

import { createHistogram, type RecordableHistogram } from "node:perf_hooks";
import { AMOUNT_MAX, divideUp } from "../../../engine/base/units.ts";
import { HOLD_SECONDS_MAX } from "../../../engine/rules/schema.ts";
import type { HeldCall } from "./held-calls.ts";

/** From this many calls without an estimate on, the default is made of them alone; with fewer, of all calls. */
const UNSTATED_MIN = 20;
/** The suggested time if no call's length is known. */
const SECONDS_UNKNOWN = 600;

/** The calls of one kind of descriptor. */
export class HoldUse {
  begun = 0;
  ended = 0;
  /** Calls that ended without a number. */
  unknown = 0;
  /** True if a call's begin and end are two descriptors, so that a simulation can hold for it. */
  get isPaired(): boolean {
    return this.ended > 0;
  }
  /** What all calls used, and what those without an estimate used. */
  readonly used = histogram();
  readonly usedUnstated = histogram();
  usedMax = 0;
  /** Calls whose begin and end are known, and how long the longest took. */
  timed = 0;
  tookMsMax = 0;
  /** What is suggested to be held. */
  hold: { readonly default: number; readonly max: number; readonly seconds: number } | undefined;
  /** Calls that used more than would have been held: how many, how much more in all, and how much more at most. */
  above = 0;
  exceeded = 0;
  exceededMax = 0;

  learn({ part, used, stated, tookUs }: HeldCall): void {
    if (part === "begin") {
      this.begun++;
      return;
    }
    if (part === "end") this.ended++;
    if (tookUs !== undefined) {
      this.timed++;
      this.tookMsMax = Math.max(this.tookMsMax, divideUp(Math.max(0, tookUs), 1_000));
    }
    if (used === undefined) {
      this.unknown++;
      return;
    }
    this.usedMax = Math.max(this.usedMax, used);
    note(this.used, used);
    if (stated === undefined) note(this.usedUnstated, used);
  }

  /** True if there are enough calls without an estimate to say what such calls use. */
  get isDefaultOfUnstated(): boolean {
    return this.usedUnstated.count >= UNSTATED_MIN;
  }

  /**
   * Decides what to hold, each times `headroom`: by default what at least `share` of calls did not exceed, at most the most that
   * any used, and as long as the longest call took.
   */
  propose(share: number, headroom: number): void {
    const usual = quantile(this.isDefaultOfUnstated ? this.usedUnstated : this.used, share);
    const max = withHeadroom(this.usedMax, headroom);
    const longest = divideUp(this.tookMsMax, 1_000) * headroom;
    this.hold = {
      default: Math.min(withHeadroom(usual, headroom), max),
      max,
      seconds: this.timed === 0 ? SECONDS_UNKNOWN : Math.min(Math.max(1, Math.ceil(longest)), HOLD_SECONDS_MAX),
    };
  }

  /** What the call would have held. */
  heldFor(stated: number | undefined): number {
    if (this.hold === undefined) return 0;
    return stated === undefined ? this.hold.default : Math.min(stated, this.hold.max);
  }

  /** Compares a call with what is to be held. */
  judge({ used, stated }: HeldCall): void {
    if (used === undefined) return;
    const exceeded = used - this.heldFor(stated);
    if (exceeded <= 0) return;
    this.above++;
    this.exceeded += exceeded;
    this.exceededMax = Math.max(this.exceededMax, exceeded);
  }
}

// Whole numbers in some 50 KB, exact up to 255, larger ones rounded up by less than a hundredth. Each is kept as one more, for a
// histogram has no 0.
function histogram(): RecordableHistogram {
  return createHistogram({ lowest: 1, highest: Number.MAX_SAFE_INTEGER, figures: 2 });
}

function note(numbers: RecordableHistogram, value: number): void {
  numbers.record(Math.min(value + 1, Number.MAX_SAFE_INTEGER));
}

/** The smallest number that at least `share` (above 0 up to 1) of all do not exceed; 0 without any. */
function quantile(numbers: RecordableHistogram, share: number): number {
  // The histogram would round the number of calls to the nearest one.
  const calls = Math.ceil(share * numbers.count);
  return calls === 0 ? 0 : numbers.percentile((calls / numbers.count) * 100) - 1;
}

function withHeadroom(hits: number, headroom: number): number {
  return Math.min(Math.max(1, Math.ceil(hits * headroom)), AMOUNT_MAX);
}
