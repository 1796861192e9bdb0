// What calls of one kind used, and what should be held for them. The first reading of a recording finds what to hold, the second
// checks it.

import { AMOUNT_MAX, divideUp } from "../../../engine/base/units.ts";
import { HOLD_SECONDS_MAX } from "../../../engine/rules/schema.ts";
import type { HeldCall } from "./held-calls.ts";
import { RoundedCounts } from "./rounded-counts.ts";

/** From this many calls without an estimate on, the default is made of them alone; with fewer, of all calls. */
const UNSTATED_MIN = 20;
/** The suggested time if no call's length is known. */
const SECONDS_UNKNOWN = 600;

/** What is suggested to be held. */
interface SuggestedHold {
  readonly default: number;
  readonly max: number;
  readonly seconds: number;
}

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
  readonly used = new RoundedCounts();
  readonly usedUnstated = new RoundedCounts();
  readonly tookMs = new RoundedCounts();
  hold: SuggestedHold | undefined;
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
    if (tookUs !== undefined) this.tookMs.add(divideUp(Math.max(0, tookUs), 1_000));
    if (used === undefined) {
      this.unknown++;
      return;
    }
    this.used.add(used);
    if (stated === undefined) this.usedUnstated.add(used);
  }

  /** True if there are enough calls without an estimate to say what such calls use. */
  get isDefaultOfUnstated(): boolean {
    return this.usedUnstated.size >= UNSTATED_MIN;
  }

  /**
   * Decides what to hold, each times `headroom`: by default what at least `share` of calls did not exceed, at most the most that
   * any used, and as long as the longest call took.
   */
  propose(share: number, headroom: number): void {
    const usual = (this.isDefaultOfUnstated ? this.usedUnstated : this.used).at(share);
    const max = withHeadroom(this.used.max, headroom);
    const longest = divideUp(this.tookMs.max, 1_000) * headroom;
    this.hold = {
      default: Math.min(withHeadroom(usual, headroom), max),
      max,
      seconds: this.tookMs.size === 0 ? SECONDS_UNKNOWN : Math.min(Math.max(1, Math.ceil(longest)), HOLD_SECONDS_MAX),
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

function withHeadroom(hits: number, headroom: number): number {
  return Math.min(Math.max(1, Math.ceil(hits * headroom)), AMOUNT_MAX);
}
