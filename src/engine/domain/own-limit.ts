// The limit of takes that Headgate asks for itself: to warm up, and to find out whether a server is well.

import { Algorithm, type Limit, OnStoreFailure, Sync, Unit } from "./limit.ts";
import { LimitStats } from "./limit-stats.ts";

/** A token bucket that lives for a second and refuses nobody, so that each payment writes. No metrics show it. */
export const OWN_LIMIT: Limit = {
  algorithm: Algorithm.tokenBucket,
  amount: 1_000_000,
  burst: 1_000_000,
  windowSeconds: 1,
  calendar: undefined,
  debtMax: 1_000_000,
  holdSeconds: 0,
  isConcurrent: false,
  isCounter: false,
  reserve: 0,
  keySuffix: "",
  shownAmount: 1_000_000,
  shownUnit: Unit.second,
  writtenSeconds: 1,
  priority: undefined,
  policy: { onStoreFailure: OnStoreFailure.allow, sync: Sync.exact, retryAfterJitter: 0, replaces: [] },
  names: { id: "own", path: "own", name: "", readableName: "" },
  stats: new LimitStats(),
};
