// Short ways to say what a test is about; everything not named gets a harmless default.

import { AMOUNT_MAX, divideDown, MICROS_PER_SECOND } from "../../src/base/units.ts";
import { CalendarWindows } from "../../src/engine/domain/calendar-windows.ts";
import {
  ALGORITHM_NAMES,
  Algorithm,
  type Limit,
  type Names,
  OnStoreFailure,
  type Policy,
  Sync,
  Unit,
} from "../../src/engine/domain/limit.ts";
import { LimitStats } from "../../src/engine/domain/stats.ts";
import { limitKeySuffix } from "../../src/engine/rules/bucket-key.ts";

/** A limit of the given algorithm; 10 per second unless told otherwise. */
export function makeLimit(overrides: Partial<Limit & Policy & Names> = {}): Limit {
  const { onStoreFailure, sync, retryAfterJitter, replaces, id, path, name = "", readableName, ...numbers } = overrides;
  const algorithm = overrides.algorithm ?? Algorithm.tokenBucket;
  const amount = overrides.amount ?? 10;
  const burst = overrides.burst ?? amount;
  const windowSeconds = overrides.windowSeconds ?? 1;
  return {
    algorithm,
    amount,
    burst,
    windowSeconds,
    calendar: algorithm === Algorithm.calendarWindow ? regularWindows(windowSeconds) : undefined,
    debtMax: Math.min(burst * 10, AMOUNT_MAX),
    holdSeconds: 0,
    isConcurrent: false,
    isCounter: false,
    reserve: 0,
    keySuffix: limitKeySuffix(algorithm, windowSeconds, name),
    shownAmount: amount,
    shownUnit: windowSeconds === 1 ? Unit.second : Unit.unknown,
    writtenSeconds: windowSeconds,
    priority: undefined,
    policy: {
      onStoreFailure: onStoreFailure ?? OnStoreFailure.allow,
      sync: sync ?? Sync.exact,
      retryAfterJitter: retryAfterJitter ?? 0,
      replaces: replaces ?? [],
    },
    names: {
      id: id ?? `test/${ALGORITHM_NAMES[algorithm]}`,
      path: path ?? "test",
      name,
      readableName: readableName ?? name,
    },
    stats: new LimitStats(),
    ...numbers,
  };
}

/**
 * Windows of whole seconds, one after another. With a seed above 0 each of their edges is moved by up to a third of the
 * length, as it is where processes have other zone data: by another seed, to another place.
 */
export function regularWindows(windowSeconds: number, seed = 0): CalendarWindows {
  const edgeUs = (number: number) => {
    const spread = Math.floor(windowSeconds / 3);
    const moved = seed === 0 || spread === 0 ? 0 : (Math.imul(number * 31 + seed, 0x9e3779b1) >>> 8) % (spread + 1);
    return (number * windowSeconds + moved) * MICROS_PER_SECOND;
  };
  return new CalendarWindows(`${windowSeconds} s by ${seed}`, (atUs) => {
    let number = divideDown(atUs, windowSeconds * MICROS_PER_SECOND);
    if (edgeUs(number) > atUs) number--;
    return { startUs: edgeUs(number), endUs: edgeUs(number + 1), nextEndUs: edgeUs(number + 2) };
  });
}
