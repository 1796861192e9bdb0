// What the limiter reports to telemetry. Implementations are called on the decision path, so they must be cheap and
// must not throw.

import type { StoreError } from "../../base/errors.ts";
import type { OnStoreFailure } from "../domain/limit.ts";
import type { Source, TakeGroup } from "../domain/take.ts";
import type { LimitCall } from "./call.ts";

/** Gets every decided call. */
export interface CallListener {
  /** The call must not be kept: it is reused after its answer. `nowUs` is in microseconds of the limiter's clock. */
  decided(call: LimitCall, nowUs: number): void;
}

/** What the limit needs if the suspicion is right: a word of its rule, or callers that ask before they report. */
export type MissingForReports = "post_paid" | "charge_given_hits" | "asking";

export interface LimiterObserver {
  /** A call was decided. `elapsedUs` is the time from `decide` to the decision, in microseconds. */
  decided(refused: boolean, source: Source, elapsedUs: number): void;
  /**
   * Takes of a call were decided without an answer of the store; `policy` is the strictest policy applied, `group` the
   * decided takes.
   */
  degraded(policy: OnStoreFailure, failure: StoreError, group: TakeGroup): void;
  /** A request with `descriptors` descriptors named a domain without rules. */
  domainNotFound(domain: string, descriptors: number): void;
  /** A call came before the first rule set was in force, and got no decision. */
  withoutRules(): void;
  /** SHADOW_MODE let a refused call pass. */
  globalShadow(): void;
  /** A take looks like hits reported after the fact on a limit that never refuses because of them. */
  suspectedReport(limitId: string, missing: MissingForReports): void;
  /** `hits` post-paid hits were not recorded, because the bucket's state can't hold more (`debt_max`). */
  debtCapped(limitId: string, hits: number): void;
}
