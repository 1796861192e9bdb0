// Short ways to say what a test is about; everything not named gets a harmless default.

import { ALGORITHM_NAMES, Algorithm, type Limit, OnStoreFailure, Sync, Unit } from "../../src/core/limit.ts";
import { LimitStats } from "../../src/core/limit-stats.ts";
import { AMOUNT_MAX } from "../../src/core/units.ts";
import { limitKeySuffix } from "../../src/rules/bucket-key.ts";

/** A limit of the given algorithm; 10 per second unless told otherwise. */
export function makeLimit(overrides: Partial<Limit> = {}): Limit {
  const algorithm = overrides.algorithm ?? Algorithm.tokenBucket;
  const amount = overrides.amount ?? 10;
  const burst = overrides.burst ?? amount;
  const windowSeconds = overrides.windowSeconds ?? 1;
  const name = overrides.name ?? "";
  return {
    algorithm,
    amount,
    burst,
    windowSeconds,
    writtenSeconds: windowSeconds,
    debtMax: Math.min(burst * 10, AMOUNT_MAX),
    holdSeconds: 0,
    isConcurrent: false,
    reserve: 0,
    priority: undefined,
    shownAmount: amount,
    shownUnit: windowSeconds === 1 ? Unit.second : Unit.unknown,
    name,
    readableName: name,
    id: `test/${ALGORITHM_NAMES[algorithm]}`,
    path: "test",
    keySuffix: limitKeySuffix(algorithm, windowSeconds, name),
    isCounter: false,
    retryAfterJitter: 0,
    onStoreFailure: OnStoreFailure.allow,
    sync: Sync.exact,
    replaces: [],
    stats: new LimitStats(),
    ...overrides,
  };
}
