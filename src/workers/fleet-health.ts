// What the health pages of one worker say of the others. Pure.

import type { Parts } from "./messages.ts";

/** A worker as far as health goes. */
export interface HealthyWorker {
  readonly number: number;
  /** True if it takes calls. */
  readonly serves: boolean;
  readonly troubles: Parts;
  readonly notes: Parts;
}

/** What stands before the parts of a worker wherever they are shown. */
export function partPrefix(number: number): string {
  return `worker ${number}: `;
}

/**
 * Troubles and notes of the workers beside `one` that take calls. While the process starts, `expected` is how many there
 * shall be, and that some are missing is a trouble; later a worker that is replaced is not missed, for it gets no calls.
 */
export function othersOf(
  one: HealthyWorker,
  all: readonly HealthyWorker[],
  expected: number,
): { readonly troubles: Parts; readonly notes: Parts } {
  const serving = all.filter(({ serves }) => serves);
  const others = serving.filter((worker) => worker !== one);
  const missing = expected - serving.length;
  return {
    troubles: {
      ...(missing > 0 ? { workers: `${missing} of ${expected} workers are still starting` } : {}),
      ...prefixed(others, ({ troubles }) => troubles),
    },
    notes: prefixed(others, ({ notes }) => notes),
  };
}

function prefixed(workers: readonly HealthyWorker[], read: (worker: HealthyWorker) => Parts): Parts {
  return Object.fromEntries(
    workers.flatMap((worker) =>
      Object.entries(read(worker)).map(([part, text]) => [`${partPrefix(worker.number)}${part}`, text]),
    ),
  );
}
