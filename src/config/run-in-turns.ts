// Drives long work beside calls: a few milliseconds of it, then everybody else's turn.

import { setImmediate as nextTurn } from "node:timers/promises";
import { SystemClock } from "../core/clock.ts";
import type { LongWork } from "../core/long-work.ts";

/** Longest stretch of such work; calls that come meanwhile wait for its end. */
const TURN_US = 4_000;

const clock = new SystemClock();

/** Runs the steps in turns of a few milliseconds of real time. Rejects with what a step throws. */
export async function runInTurns<T>(steps: LongWork<T>): Promise<T> {
  let endUs = clock.nowUs() + TURN_US;
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (clock.nowUs() < endUs) continue;
    await nextTurn();
    endUs = clock.nowUs() + TURN_US;
  }
}
