// Joins the health of all workers. Pure.

import type { Health, PartNotesRecord } from "./messages.ts";

/** What this file reads of a worker. */
interface HealthyWorker extends Health {
  readonly number: number;
  /** Whether it takes calls. */
  readonly serves: boolean;
}

/** How many workers there should be; `isStarting` until all of them have served once. */
interface ExpectedWorkers {
  readonly count: number;
  readonly isStarting: boolean;
}

/** What a worker reports of its parts. */
type Said = readonly [worker: number, parts: PartNotesRecord];

/** The part of a worker's health that says whether it has rules. */
const RULES = "rules";

/**
 * The workers that get connections. One that started while the rules can't be read has no rules, and gets connections only if no other has
 * rules.
 */
export function workersForCalls<W extends HealthyWorker>(all: readonly W[]): readonly W[] {
  const serving = all.filter(({ serves }) => serves);
  const withRules = serving.filter(({ troubles }) => troubles[RULES] === undefined);
  return withRules.length > 0 ? withRules : serving;
}

/**
 * Troubles and notes of all workers, by part. What all that serve say alike is said once, the rest with the numbers of the workers.
 * Missing workers are a trouble while the process starts, and if none serves. Otherwise they are a note, as is a worker without rules
 * while others have theirs: they get no calls, so callers need not stay away.
 */
export function joinHealth(all: readonly HealthyWorker[], { count, isStarting }: ExpectedWorkers): Health {
  const serving = all.filter(({ serves }) => serves);
  const missing = count - serving.length;
  const isMissed = isStarting || serving.length === 0;
  const called = isMissed ? all : workersForCalls(all);
  const uncalled = isMissed ? [] : serving.filter((worker) => !called.includes(worker));
  const join = (said: readonly Said[]) => joined(said, isMissed ? all.length : serving.length, count);
  return {
    troubles: {
      ...(missing > 0 && isMissed ? { workers: `${missing} of ${count} workers are still starting` } : {}),
      ...join(called.map(({ number, troubles }) => [number, troubles])),
    },
    notes: {
      ...(missing > 0 && !isMissed
        ? { workers: `${missing} of ${count} workers are being replaced and accept no calls yet` }
        : {}),
      ...join([
        ...(isMissed ? all : serving).map(({ number, notes }): Said => [number, notes]),
        ...uncalled.map(({ number, troubles }): Said => [number, troubles]),
      ]),
    },
  };
}

function joined(said: readonly Said[], speakers: number, count: number): PartNotesRecord {
  const parts = new Map<string, Map<string, number[]>>();
  for (const [worker, record] of said) {
    for (const [part, text] of Object.entries(record)) {
      const texts = parts.get(part) ?? new Map<string, number[]>();
      parts.set(part, texts.set(text, [...(texts.get(text) ?? []), worker]));
    }
  }
  const sentence = ([text, workers]: [string, number[]]) =>
    workers.length === speakers ? text : `in worker ${workers.join(" and ")} of ${count}: ${text}`;
  return Object.fromEntries([...parts].map(([part, texts]) => [part, [...texts].map(sentence).join("; ")]));
}
