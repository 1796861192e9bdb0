// Runs long work a few milliseconds at a time, so that calls are answered in between.

import { setImmediate as nextTurn } from "node:timers/promises";
import { SystemClock } from "../../engine/base/clock.ts";
import type { LongWork } from "../../engine/base/long-work.ts";

/** Length of one turn; calls that come meanwhile wait for its end. */
const TURN_US = 4_000;

const clock = new SystemClock();

/** Runs all steps and resolves to the result. Rejects with what a step throws. */
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
