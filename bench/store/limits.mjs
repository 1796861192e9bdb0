// Limits as the compiler of rule files makes them, for benches that need no rule files.

import { OWN_LIMIT } from "../../dist/engine/domain/limit.js";
import { LimitStats } from "../../dist/engine/domain/stats.js";
import { limitKeySuffix } from "../../dist/engine/rules/bucket-key.js";

/** A token bucket. */
export function bucketOf({ amount, burst, windowSeconds = 1, sync = 0 }) {
  return {
    ...OWN_LIMIT,
    amount,
    burst,
    windowSeconds,
    debtMax: burst,
    keySuffix: limitKeySuffix(0, windowSeconds, ""),
    policy: { ...OWN_LIMIT.policy, sync },
    stats: new LimitStats(),
  };
}
