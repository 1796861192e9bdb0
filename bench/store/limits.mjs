// Limits as the compiler of rule files makes them, for benches that need no rule files.

import { LimitStats } from "../../dist/engine/domain/limit-stats.js";
import { limitKeySuffix } from "../../dist/engine/rules/bucket-key.js";

/** A token bucket. */
export function bucketOf({ amount, burst, windowSeconds = 1, sync = 0 }) {
  return {
    algorithm: 0,
    amount,
    burst,
    windowSeconds,
    debtMax: burst,
    shownAmount: amount,
    shownUnit: 0,
    name: "",
    id: "bench",
    path: "bench",
    keySuffix: limitKeySuffix(0, windowSeconds, ""),
    isCounter: false,
    holdSeconds: 0,
    isConcurrent: false,
    retryAfterJitter: 0,
    onStoreFailure: 0,
    sync,
    replaces: [],
    stats: new LimitStats(),
  };
}
