// Long work cut into steps: a generator that yields where other work may have its turn. Who drives it decides how long a
// turn is; this file only knows how to go through without stopping. config/run-in-turns.ts drives it beside calls.

/** Work that yields between its steps, each well under a millisecond, and returns what came of it. */
export type LongWork<T> = Generator<void, T, void>;

/** Runs all steps at once, for those who have nothing else to do. */
export function runThrough<T>(steps: LongWork<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}
