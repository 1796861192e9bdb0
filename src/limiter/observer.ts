// What the limiter reports of its work; telemetry implements it. Called on the decision path: must be cheap, must not throw.

import type { StoreError } from "../core/errors.ts";
import type { OnStoreFailure } from "../core/limit.ts";
import type { Source } from "../core/take.ts";
import type { LimitCall } from "./call.ts";

/** Who wants to hear of decided calls one by one. Called on the decision path: must be cheap, must not throw. */
export interface CallListener {
  /** The call is used again when it was answered. `nowUs` by the limiter's clock. */
  decided(call: LimitCall, nowUs: number): void;
}

export interface LimiterObserver {
  /** A call was decided, by whatever source. `elapsedUs` from decode to decision. */
  decided(refused: boolean, source: Source, elapsedUs: number): void;
  /** Limits of a call were decided without an answer of the store; `policy` is the strictest that had a part in it. */
  degraded(policy: OnStoreFailure, failure: StoreError): void;
  /** A request named a domain that has no rules, with so many descriptors. */
  domainNotFound(domain: string, descriptors: number): void;
  /** A call came before any rule set was in force and got no decision. */
  withoutRules(): void;
  /** SHADOW_MODE let a refused call pass. */
  globalShadow(): void;
  /** Hits were reported on a rule that is not post-paid in a way that looks like a late report (a cost above what one call may pay). */
  suspectedLateReport(limitId: string): void;
  /** Post-paid hits beyond `debt_max` were not recorded. */
  debtCapped(limitId: string, hits: number): void;
}
