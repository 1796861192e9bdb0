// What the health pages of one worker say of the others. Pure.

import type { PartNotesRecord } from "./messages.ts";

/** A worker as far as health goes. */
interface HealthyWorker {
  readonly number: number;
  /** True if it takes calls. */
  readonly serves: boolean;
  readonly troubles: PartNotesRecord;
  readonly notes: PartNotesRecord;
}

/** What stands before the parts of a worker wherever they are shown. */
export function partPrefix(number: number): string {
  return `worker ${number}: `;
}

/** How many workers there should be, and whether all of them have served before. */
interface ExpectedWorkers {
  readonly count: number;
  readonly isStarting: boolean;
}

/**
 * Troubles and notes of the workers beside `one` that take calls. That some are missing is a trouble while the process
 * starts. Later it is a note: a worker that is replaced gets no calls, so nobody has to stay away.
 */
export function othersOf(
  one: HealthyWorker,
  all: readonly HealthyWorker[],
  { count, isStarting }: ExpectedWorkers,
): { readonly troubles: PartNotesRecord; readonly notes: PartNotesRecord } {
  const serving = all.filter(({ serves }) => serves);
  const others = serving.filter((worker) => worker !== one);
  const missing = count - serving.length;
  const isMissed = missing > 0 && isStarting;
  const isReplaced = missing > 0 && !isStarting;
  return {
    troubles: {
      ...(isMissed ? { workers: `${missing} of ${count} workers are still starting` } : {}),
      ...prefixed(others, ({ troubles }) => troubles),
    },
    notes: {
      ...(isReplaced ? { workers: `${missing} of ${count} workers are being replaced and take no calls yet` } : {}),
      ...prefixed(others, ({ notes }) => notes),
    },
  };
}

function prefixed(
  workers: readonly HealthyWorker[],
  read: (worker: HealthyWorker) => PartNotesRecord,
): PartNotesRecord {
  return Object.fromEntries(
    workers.flatMap((worker) =>
      Object.entries(read(worker)).map(([part, text]) => [`${partPrefix(worker.number)}${part}`, text]),
    ),
  );
}
