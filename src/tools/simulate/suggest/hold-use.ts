// What calls of one kind used, and what should be held for them.

import { createHistogram, type RecordableHistogram } from "node:perf_hooks";
import { AMOUNT_MAX, divideUp } from "../../../base/units.ts";
import { HOLD_SECONDS_MAX } from "../../../engine/rules/schema.ts";
import type { HeldCall } from "./held-calls.ts";
import type { ReportedUse } from "./shapes.ts";

/** The suggested time if no call's length is known. */
const SECONDS_UNKNOWN = 600;

/** The calls of one kind of descriptor. */
export class HoldUse implements ReportedUse {
  ended = 0;
  get isPaired(): boolean {
    return this.ended > 0;
  }
  readonly used = histogram();
  usedMax = 0;
  timed = 0;
  tookMsMax = 0;
  hold: ReportedUse["hold"];

  learn({ part, used, tookUs }: HeldCall): void {
    if (part === "end") this.ended++;
    if (tookUs !== undefined) {
      this.timed++;
      this.tookMsMax = Math.max(this.tookMsMax, divideUp(Math.max(0, tookUs), 1_000));
    }
    if (used === undefined) return;
    this.usedMax = Math.max(this.usedMax, used);
    // One more, because a histogram has no 0.
    this.used.record(Math.min(used + 1, Number.MAX_SAFE_INTEGER));
  }

  propose(share: number, headroom: number): void {
    const usual = quantile(this.used, share);
    const max = withHeadroom(this.usedMax, headroom);
    const longest = divideUp(this.tookMsMax, 1_000) * headroom;
    this.hold = {
      default: Math.min(withHeadroom(usual, headroom), max),
      max,
      seconds: this.timed === 0 ? SECONDS_UNKNOWN : Math.min(Math.max(1, Math.ceil(longest)), HOLD_SECONDS_MAX),
    };
  }
}

// Whole numbers in some 50 KB, exact up to 255, larger ones rounded up by less than a hundredth.
function histogram(): RecordableHistogram {
  return createHistogram({ lowest: 1, highest: Number.MAX_SAFE_INTEGER, figures: 2 });
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
