// Long work as a generator that yields between short steps. The caller decides how many steps run at once: runThrough runs all of
// them, rule-sources/files/run-in-turns.ts lets calls be answered in between.

/** Work that yields between its steps, each well under a millisecond, and returns its result. */
export type LongWork<T> = Generator<void, T, void>;

/** Runs all steps at once and returns the result. For processes that answer no calls meanwhile. Throws what a step throws. */
export function runThrough<T>(steps: LongWork<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}
