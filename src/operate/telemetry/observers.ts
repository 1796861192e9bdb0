// Counts what limiter, stores and the gRPC edge report, as plain numbers, which the metrics are made of. Troubles are
// also logged: each kind at most once a second, and less often while it lasts.

import {
  type RequestErrorCode,
  STORE_ERROR_CODES,
  type StoreError,
  type StoreErrorCode,
} from "../../engine/base/errors.ts";
import { ON_STORE_FAILURE_NAMES, OnStoreFailure } from "../../engine/domain/limit.ts";
import type { Source } from "../../engine/domain/take.ts";
import type { LimiterObserver } from "../../engine/limiter/limiter.ts";
import type { StoreObserver } from "../../stores/store-observer.ts";
import { LatencyHistogram } from "./latency-histogram.ts";
import type { RateLimitedLog } from "./rate-limited-log.ts";
import { UnmatchedBook } from "./unmatched-book.ts";

/** Names of Source in metrics, by Source. */
export const SOURCE_NAMES = ["store", "denial_memory", "lease", "local"] as const;
export const BREAKER_STATES = ["closed", "open", "probing"] as const;
type BreakerState = (typeof BREAKER_STATES)[number];

/** Counts by store error code; all codes are present from the start. */
type CodeCounts = Map<StoreErrorCode, number>;

/** Counters of decisions and calls. */
export class CallCounts implements LimiterObserver {
  readonly responseTime = new LatencyHistogram();
  /** Allowed and refused calls, by Source. */
  readonly allowed = new Float64Array(SOURCE_NAMES.length);
  readonly refused = new Float64Array(SOURCE_NAMES.length);
  /** Degraded calls by OnStoreFailure, then by the store's error code. */
  readonly degradedByPolicy: readonly CodeCounts[] = ON_STORE_FAILURE_NAMES.map(zeroCodes);
  readonly requestErrors = new Map<RequestErrorCode, number>();
  /** Descriptors of calls that name a domain without rules. */
  domainsNotFound = 0;
  /** Descriptors that met no rule, by domain; domains without rules are included. */
  readonly unmatched = new UnmatchedBook();
  callsWithoutRules = 0;
  globalShadows = 0;
  lateReports = 0;
  cappedHits = 0;
  internalErrors = 0;
  overloadedCalls = 0;
  readonly #log: RateLimitedLog;

  constructor(log: RateLimitedLog) {
    this.#log = log;
  }

  decided(refused: boolean, source: Source, elapsedUs: number): void {
    const counts = refused ? this.refused : this.allowed;
    counts[source] = (counts[source] as number) + 1;
    this.responseTime.observe(elapsedUs);
  }

  degraded(policy: OnStoreFailure, failure: StoreError): void {
    const counts = this.degradedByPolicy[policy] as CodeCounts;
    counts.set(failure.code, (counts.get(failure.code) ?? 0) + 1);
    this.#log.warn(`degraded ${policy} ${failure.code}`, "answered without the store", () => ({
      policy: ON_STORE_FAILURE_NAMES[policy],
      reason: failure.code,
      cause: failure.message,
    }));
  }

  domainNotFound(domain: string, descriptors: number): void {
    this.domainsNotFound += descriptors;
    this.unmatched.countUnknown(domain, descriptors);
  }

  withoutRules(): void {
    this.callsWithoutRules++;
  }

  globalShadow(): void {
    this.globalShadows++;
  }

  suspectedLateReport(limitId: string): void {
    this.lateReports++;
    this.#log.warn(
      "late report",
      "hits beyond the limit on a rule that is also peeked at: if they are reported after the fact, the rule needs post_paid: true",
      () => ({ limit: limitId }),
    );
  }

  debtCapped(limitId: string, hits: number): void {
    this.cappedHits += hits;
    this.#log.warn("debt capped", "post-paid hits beyond debt_max were not recorded", () => ({ limit: limitId, hits }));
  }

  /** A request could not be read. */
  requestFailed(code: RequestErrorCode): void {
    this.requestErrors.set(code, (this.requestErrors.get(code) ?? 0) + 1);
  }

  /** A call was turned away because as many as there may be were under way. */
  overloaded(): void {
    this.overloadedCalls++;
    this.#log.warn(
      "overloaded",
      "calls were turned away: more are under way than IN_FLIGHT_MAX, or than 1,000 to /json",
      () => ({}),
    );
  }

  /** A call failed because of an internal error. */
  internalFailed(error: unknown): void {
    this.internalErrors++;
    this.#log.error("internal error", "a call failed by a fault of Headgate itself", () => ({ err: error }));
  }

  /** Calls, whatever their outcome. */
  total(): number {
    return this.responseTime.count() + this.storeErrors() + this.serviceErrors();
  }

  /** Calls that on_store_failure decided, fully or in part. */
  degradedCalls(): number {
    let sum = 0;
    for (const byCode of this.degradedByPolicy) sum += sumOf(byCode.values());
    return sum;
  }

  /** Calls without a decision because the store failed. */
  storeErrors(): number {
    return sumOf((this.degradedByPolicy[OnStoreFailure.error] as CodeCounts).values());
  }

  /** Calls without a decision for any other reason. */
  serviceErrors(): number {
    return sumOf(this.requestErrors.values()) + this.callsWithoutRules + this.internalErrors + this.overloadedCalls;
  }
}

/** Counters of what stores report. */
export class StoreCounts implements StoreObserver {
  readonly roundTrip = new LatencyHistogram();
  readonly failures: CodeCounts = zeroCodes();
  readonly breakerChanges = new Map<BreakerState, number>(BREAKER_STATES.map((state) => [state, 0]));
  /** The worst of all servers. */
  breakerState: BreakerState = "closed";
  /** Breakers that are not closed, by the name of their server. */
  readonly serverBreakers = new Map<string, BreakerState>();
  takes = 0;
  repeats = 0;
  redirections = 0;
  damagedBuckets = 0;
  evictedBuckets = 0;
  lateGroups = 0;
  unknownOutcomes = 0;
  givenBack = 0;
  notGivenBack = 0;
  readonly #log: RateLimitedLog;

  constructor(log: RateLimitedLog) {
    this.#log = log;
  }

  answered(elapsedUs: number, takes: number): void {
    this.roundTrip.observe(elapsedUs);
    this.takes += takes;
  }

  repeated(): void {
    this.repeats++;
  }

  redirected(): void {
    this.redirections++;
  }

  failed(error: StoreError): void {
    this.failures.set(error.code, (this.failures.get(error.code) ?? 0) + 1);
    this.#log.warn(`store ${error.code}`, "the store failed calls", () => ({
      code: error.code,
      reason: error.message,
      ...(error.cause instanceof Error ? { cause: error.cause.message } : {}),
    }));
  }

  damaged(buckets: number): void {
    this.damagedBuckets += buckets;
    this.#log.warn("damaged", "damaged buckets were reset", () => ({ buckets }));
  }

  evicted(buckets: number): void {
    this.evictedBuckets += buckets;
    this.#log.warn("evicted", "buckets were dropped to stay within BUCKETS_MAX", () => ({ buckets }));
  }

  loopLate(groups: number): void {
    this.lateGroups += groups;
    this.#log.warn("loop late", "this process was too busy to read answers of the store in time", () => ({
      calls: groups,
    }));
  }

  outcomeUnknown(groups: number): void {
    this.unknownOutcomes += groups;
    this.#log.warn("outcome unknown", "replies of the store were lost; their calls may have been charged", () => ({
      calls: groups,
    }));
  }

  gaveBack(takes: number): void {
    this.givenBack += takes;
  }

  keptPaid(takes: number): void {
    this.notGivenBack += takes;
    const message = "payments that were to be undone stay paid, because the store could not be told";
    this.#log.warn("kept paid", message, () => ({ takes }));
  }

  breakerChanged(server: string, state: BreakerState): void {
    if (state === "closed") this.serverBreakers.delete(server);
    else this.serverBreakers.set(server, state);
    const states = [...this.serverBreakers.values()];
    const worst = states.includes("open") ? "open" : (states[0] ?? "closed");
    if (worst !== this.breakerState) this.#worstChanged(worst);
  }

  #worstChanged(state: BreakerState): void {
    this.breakerState = state;
    this.breakerChanges.set(state, (this.breakerChanges.get(state) ?? 0) + 1);
    const message = {
      closed: "the store answers again; the breaker is closed",
      open: "the store is left alone for a while; the breaker is open",
      probing: "the breaker lets one call probe the store",
    }[state];
    if (state === "probing") this.#log.info("breaker probing", message, () => ({}));
    else this.#log.warn(`breaker ${state}`, message, () => ({}));
  }
}

function zeroCodes(): CodeCounts {
  return new Map(STORE_ERROR_CODES.map((code) => [code, 0]));
}

export function sumOf(counts: Iterable<number>): number {
  let sum = 0;
  for (const count of counts) sum += count;
  return sum;
}
