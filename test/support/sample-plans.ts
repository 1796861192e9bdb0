// What each wrong limiter of sample-limiter.ts is verified with: a plan that a careful reader of its rules would write.

import type { Algorithm, Limit } from "../../packages/verify/src/limit.ts";
import type { Plan, PlannedKind } from "../../packages/verify/src/plan.ts";
import type { Wrong } from "./sample-limiter.ts";

const BUCKET = limitOf(20, "token_bucket", { burst: 20 });
const FIXED = limitOf(20, "fixed_window");

/** Plans that right limiters keep. */
export const RIGHT_PLANS = {
  "token bucket": planOf(kind(["tenant", BUCKET])),
  "fixed window": planOf(kind(["tenant", FIXED])),
  "sliding window": planOf(kind(["tenant", limitOf(20, "sliding_window")])),
  "token bucket of many seconds": planOf(kind(["tenant", limitOf(5, "token_bucket", { burst: 40 })])),
  refunds: { ...planOf(kind(["tenant", BUCKET])), hasRefunds: true },
  "two descriptors": planOf(kind(["tenant", BUCKET], ["path", limitOf(10, "token_bucket", { burst: 10 })])),
  "three descriptors": planOf(kind(["tenant", BUCKET], ["path", limitOf(60, "sliding_window")], ["user", FIXED])),
  "global limit": {
    ...planOf(kind(["tenant", BUCKET])),
    global: { ...limitOf(40, "token_bucket", { burst: 40 }), countsHits: true },
  },
} as const;

const OF: Partial<Record<Wrong, Plan>> = {
  "window that resets late": RIGHT_PLANS["fixed window"],
  "window that resets early": RIGHT_PLANS["fixed window"],
  "edge of a window grants twice": RIGHT_PLANS["fixed window"],
  "refuses the last hit": planOf(kind(["tenant", limitOf(1, "token_bucket", { burst: 1 })])),
  "refunds twice": RIGHT_PLANS.refunds,
  "refunds above the burst": RIGHT_PLANS.refunds,
  "tells the wait of the whole call": RIGHT_PLANS["two descriptors"],
  "charges the first descriptor when the second refuses": RIGHT_PLANS["two descriptors"],
  "global limit per connection": RIGHT_PLANS["global limit"],
  "forgets a key after ten seconds": {
    ...planOf(kind(["tenant", limitOf(20, "token_bucket", { windowMs: 3_600_000 })])),
    forMs: 20_000,
  },
};

export function planFor(wrong: Wrong): Plan {
  return OF[wrong] ?? RIGHT_PLANS["token bucket"];
}

export function limitOf(amount: number, algorithm: Algorithm, more: Partial<Limit> = {}): Limit {
  return { text: `${amount}/s`, amount, windowMs: 1_000, algorithm, tolerance: 0, ...more };
}

/** A kind of call; the first descriptor is each caller's own. */
function kind(...descriptors: readonly (readonly [string, Limit])[]): PlannedKind {
  return {
    descriptors: descriptors.map(([key, one], at) => ({
      entries: [{ key, value: at === 0 ? "*" : "shared" }],
      limits: [one],
    })),
  };
}

export function planOf(...kinds: readonly PlannedKind[]): Plan {
  return {
    servers: ["a", "b"],
    isHttp: false,
    domain: "verify",
    forMs: 6_000,
    seed: 1,
    hasRefunds: false,
    kinds,
    faults: [],
  };
}
