// Long work as a generator that yields between short steps. The caller decides how many steps run at once: runThrough
// runs all of them, runInTurns and inTurns let calls be answered in between.

import { SystemClock } from "./clock.ts";
import { nextTurn } from "./host.ts";

/** Work that yields between its steps, each well under a millisecond, and returns its result. */
export type LongWork<T> = Generator<void, T, void>;

/**
 * Runs all steps at once and returns the result. For processes that answer no calls meanwhile. Throws what a step
 * throws.
 */
export function runThrough<T>(steps: LongWork<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/**
 * Length of one turn; calls that come meanwhile wait for its end. Twice as long if it begins where a file or a socket
 * was read.
 */
const TURN_US = 2_000;

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

/** Passes on what the steps yield, while calls are answered in between. */
export async function* inTurns<T>(steps: Iterable<T>): AsyncGenerator<T, void, void> {
  let endUs = clock.nowUs() + TURN_US;
  for (const step of steps) {
    yield step;
    if (clock.nowUs() < endUs) continue;
    await nextTurn();
    endUs = clock.nowUs() + TURN_US;
  }
}
