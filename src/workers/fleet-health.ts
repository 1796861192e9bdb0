// What a worker's health pages say about the other workers. Pure.

import type { PartNotesRecord } from "./messages.ts";

/** What this file reads of a worker. */
interface HealthyWorker {
  readonly number: number;
  /** Whether it takes calls. */
  readonly serves: boolean;
  readonly troubles: PartNotesRecord;
  readonly notes: PartNotesRecord;
}

/** The prefix of a worker's parts on health pages and in logs. */
export function partPrefix(number: number): string {
  return `worker ${number}: `;
}

/** How many workers there should be; `isStarting` until all of them have served once. */
interface ExpectedWorkers {
  readonly count: number;
  readonly isStarting: boolean;
}

/**
 * Troubles and notes of the workers other than `one` that take calls. Missing workers are a trouble while the process starts. Later
 * they are a note: a worker that is being replaced gets no calls, so callers need not stay away.
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
