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

/** The part of a worker's health that says whether it has rules. */
const RULES = "rules";

/**
 * The workers that connections are given to. One that was started while the rules can't be read has none, and gets connections only if all
 * others have none either.
 */
export function workersForCalls<W extends HealthyWorker>(all: readonly W[]): readonly W[] {
  const serving = all.filter(({ serves }) => serves);
  const withRules = serving.filter(({ troubles }) => troubles[RULES] === undefined);
  return withRules.length > 0 ? withRules : serving;
}

/**
 * Troubles and notes of the workers other than `one` that take calls. Missing workers are a trouble while the process starts. Later
 * they are a note, as is a worker without rules beside others that have theirs: they get no calls, so callers need not stay away.
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
  const called = isStarting ? serving : workersForCalls(all);
  const uncalled = others.filter((worker) => !called.includes(worker));
  return {
    troubles: {
      ...(isMissed ? { workers: `${missing} of ${count} workers are still starting` } : {}),
      ...prefixed(
        others.filter((worker) => called.includes(worker)),
        ({ troubles }) => troubles,
      ),
    },
    notes: {
      ...(isReplaced ? { workers: `${missing} of ${count} workers are being replaced and take no calls yet` } : {}),
      ...prefixed(others, ({ notes }) => notes),
      ...prefixed(uncalled, ({ troubles }) => troubles),
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
